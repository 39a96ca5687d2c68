-- Run once, by the postgres image, on an empty volume.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
\connect prefect
CREATE EXTENSION pg_trgm;  -- Prefect's text search
