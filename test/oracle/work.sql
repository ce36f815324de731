\set ending random(1, 20)
BEGIN;
SELECT work();
\if :ending = 1
ROLLBACK;
\elif :ending = 2
PREPARE TRANSACTION 'session :client_id';
COMMIT PREPARED 'session :client_id';
\elif :ending < 6
SELECT work();
COMMIT;
\else
COMMIT;
\endif
