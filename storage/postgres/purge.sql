WITH _sluice_due AS MATERIALIZED (
	SELECT key, expires_at FROM TABLE WHERE purge_at <= coalesce($3::timestamptz, statement_timestamp())
	ORDER BY purge_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), _sluice_rescheduled AS (
	UPDATE TABLE SET purge_at = expires_at WHERE key = ANY(ARRAY(
		SELECT key FROM _sluice_due WHERE expires_at > coalesce($3::timestamptz, statement_timestamp())
	)) RETURNING key, purge_at, expires_at
), _sluice_removed AS (
	DELETE FROM TABLE WHERE key = ANY(ARRAY(
		SELECT key FROM _sluice_due WHERE expires_at <= coalesce($3::timestamptz, statement_timestamp()) LIMIT $2::bigint
	)) AND expires_at <= coalesce($3::timestamptz, statement_timestamp()) RETURNING key
)
SELECT (SELECT count(*) FROM _sluice_due), (SELECT count(*) FROM _sluice_removed),
	round(extract(epoch FROM coalesce($3::timestamptz, statement_timestamp())) * 1000000)::bigint,
	(SELECT count(*) FROM _sluice_due WHERE key NOT IN (SELECT key FROM _sluice_removed UNION ALL SELECT key FROM _sluice_rescheduled WHERE purge_at = expires_at))
