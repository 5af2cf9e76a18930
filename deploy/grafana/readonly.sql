-- The role as which Grafana reads the database of rankwatch. It sees every table and view, also those of later versions, and
-- changes nothing. docs/how-to/dashboards.md has the command. psql needs the variable `password`, and `owner` (the role that owns
-- the tables) if this is not the role that runs the file. The role that runs it must be allowed to create roles.
\if :{?owner}
\else
\set owner :USER
\endif
SELECT 'CREATE ROLE rankwatch_reader' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rankwatch_reader') \gexec
ALTER ROLE rankwatch_reader LOGIN PASSWORD :'password' CONNECTION LIMIT 10;
ALTER ROLE rankwatch_reader SET default_transaction_read_only = on;
ALTER ROLE rankwatch_reader SET statement_timeout = '10s';
GRANT USAGE ON SCHEMA public TO rankwatch_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO rankwatch_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public GRANT SELECT ON TABLES TO rankwatch_reader;
