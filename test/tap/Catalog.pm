# Catalog.pm: all that the server knows of the extension's objects, as lines of text: what two databases
# do not have in common, one of them does wrong.
package Catalog;

use strict;
use warnings;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(catalog is_same_catalog);

# Columns are compared with their numbers: C code may rely on them. What ALTER TABLE ADD COLUMN leaves
# in pg_attribute (atthasmissing, pg_attver) has no effect; oids and storage are not compared.
my %LOOKS = (
    extension => q{SELECT extversion, extrelocatable, extnamespace::regnamespace, extowner::regrole FROM pg_extension WHERE extname = 'pg_scd2'},
    member => q{SELECT pg_describe_object(classid, objid, objsubid) FROM member},
    dumped => q{SELECT t::regclass, c FROM pg_extension e, ROWS FROM (unnest(e.extconfig), unnest(e.extcondition)) x (t, c) WHERE e.extname = 'pg_scd2'},
    schema => q{SELECT nspname, nspowner::regrole, rights(nspacl), obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname LIKE 'scd2%'},
    function => q{SELECT oid::regprocedure, pg_get_functiondef(oid), proowner::regrole, rights(proacl), prokind, procost, prorows, prosupport,
        probin, obj_description(oid, 'pg_proc') FROM pg_proc WHERE pronamespace IN (TABLE ours)},
    type => q{SELECT oid::regtype, typowner::regrole, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined, typdelim, typrelid::regclass,
        typsubscript, typelem::regtype, typarray::regtype, typinput, typoutput, typreceive, typsend, typmodin, typmodout, typanalyze, typalign,
        typstorage, typnotnull, typbasetype::regtype, typcollation::regcollation, typdefault, rights(typacl), obj_description(oid, 'pg_type')
        FROM pg_type WHERE typnamespace IN (TABLE ours)},
    relation => q{SELECT c.oid::regclass, relkind, relpersistence, relowner::regrole, amname, relreplident, relrowsecurity, relforcerowsecurity, reloptions,
        reltoastrelid <> 0, rights(relacl), obj_description(c.oid, 'pg_class') FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE relnamespace IN (TABLE ours)},
    column => q{SELECT attrelid::regclass, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attcollation::regcollation,
        attstorage, attcompression, attinhcount, attislocal, ARRAY(SELECT o FROM unnest(attoptions) o WHERE o NOT LIKE $$pg_attver=%$$) AS attoptions, rights(attacl), pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace IN (TABLE ours) AND attnum > 0 AND NOT attisdropped},
    constraint => q{SELECT conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE connamespace IN (TABLE ours)},
    index => q{SELECT pg_get_indexdef(indexrelid), indisvalid, indisreplident, indisclustered FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace IN (TABLE ours)},
    view => q{SELECT oid::regclass, pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace IN (TABLE ours)},
    rule => q{SELECT rulename, ev_class::regclass, ev_enabled FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class WHERE relnamespace IN (TABLE ours)},
    trigger => q{SELECT pg_get_triggerdef(t.oid), tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace IN (TABLE ours)},
    sequence => q{SELECT seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
        WHERE relnamespace IN (TABLE ours)},
    cast => q{SELECT castsource::regtype, casttarget::regtype, castfunc::regproc, castcontext, castmethod FROM pg_cast JOIN member ON classid = 'pg_cast'::regclass AND objid = oid},
    'event trigger' => q{SELECT evtname, evtevent, evtowner::regrole, evtfoid::regproc, evtenabled, evttags, obj_description(oid, 'pg_event_trigger') FROM pg_event_trigger},
    policy => q{SELECT polrelid::regclass, polname FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE relnamespace IN (TABLE ours)},
    'own rights' => q{SELECT pg_describe_object(classoid, objoid, objsubid), privtype, rights(initprivs) FROM pg_init_privs p
        WHERE EXISTS (SELECT FROM member m WHERE m.classid = p.classoid AND m.objid = p.objoid)},
    dependency => q{SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(refclassid, refobjid, refobjsubid), deptype FROM pg_depend d
        JOIN member m USING (classid, objid) WHERE pg_describe_object(refclassid, refobjid, refobjsubid) IS NOT NULL},
);

# catalog(NODE, DATABASE): "kind|…" lines, a hash of them.
sub catalog
{
    my ($node, $db) = @_;
    my %lines;
    for my $kind (keys %LOOKS)
    {
        my $out = $node->safe_psql($db, q{
            CREATE FUNCTION pg_temp.rights(acl aclitem[]) RETURNS text LANGUAGE sql AS 'SELECT string_agg(a::text, $$,$$ ORDER BY a::text) FROM unnest(acl) a';
            CREATE TEMP VIEW ours AS SELECT oid FROM pg_namespace WHERE nspname IN ('scd2', 'scd2_internal');
            CREATE TEMP VIEW member AS SELECT d.classid, d.objid, d.objsubid FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass
                AND d.refobjid = e.oid AND e.extname = 'pg_scd2' AND d.deptype = 'e';} .
            "SELECT replace(row_to_json(l)::text, E'\\n', ' ') FROM (" . ($LOOKS{$kind} =~ s/\brights\(/pg_temp.rights(/gr) . ') l');
        # the types of the temporary views' own look
        $lines{"$kind $_"} = 1 for grep { !/pg_temp/ } split /\n/, $out;
    }
    return \%lines;
}

# A test result; tells at most so many lines of each side, what is alike at their beginnings cut away.
sub is_same_catalog
{
    my ($is, $expected, $what) = @_;
    my @more = grep { !$expected->{$_} } sort keys %$is;
    my @less = grep { !$is->{$_} } sort keys %$expected;
    cmp_ok(scalar keys %$expected, '>', 3000, "$what: a catalog was looked at");
    ok(!@more && !@less, "$what: the catalog is that of a fresh installation")
      or diag(join "\n  ", 'only here:', (map { substr $_, 0, 300 } @more[ 0 .. ($#more < 20 ? $#more : 20) ]),
        'missing:', (map { substr $_, 0, 300 } @less[ 0 .. ($#less < 20 ? $#less : 20) ]));
    return;
}

1;
