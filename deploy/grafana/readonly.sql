-- The role as which Grafana reads rankwatch's database: it sees every table and view, also those of later versions, and changes
-- nothing. Run it as the role that owns the tables, which must be allowed to create roles; again to change the password:
--   psql "$DATABASE" --set password="$(cat grafana_database_password)" --file deploy/grafana/readonly.sql
SELECT 'CREATE ROLE rankwatch_reader' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rankwatch_reader') \gexec
ALTER ROLE rankwatch_reader LOGIN PASSWORD :'password' CONNECTION LIMIT 10;
ALTER ROLE rankwatch_reader SET default_transaction_read_only = on;
ALTER ROLE rankwatch_reader SET statement_timeout = '10s';
GRANT USAGE ON SCHEMA public TO rankwatch_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO rankwatch_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO rankwatch_reader;
