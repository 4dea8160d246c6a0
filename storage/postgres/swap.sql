WITH _sluice_lock_timeout AS MATERIALIZED (
	SELECT CASE WHEN $6::int > 0 THEN set_config('lock_timeout', CASE
		WHEN current_setting('lock_timeout')::interval BETWEEN interval '1 microsecond' AND $6 * interval '1 millisecond'
		THEN current_setting('lock_timeout') ELSE $6::text END, true) END AS is_set
), _sluice_swaps AS (
	SELECT w.* FROM _sluice_lock_timeout CROSS JOIN LATERAL (
		SELECT is_set, $1::bytea[] AS keys, $2::bigint[] AS olds, $3::bigint[] AS news, $4::bytea[] AS states, $5::bigint[] AS ttls OFFSET 0
	) AS a CROSS JOIN LATERAL unnest(keys, olds, news, states, ttls) WITH ORDINALITY AS w (key, old, new, state, ttl, place)
), _sluice_found AS MATERIALIZED (
	SELECT _sluice_swaps.*, stored.key IS NULL AS absent, stored.state AS old_state,
		CASE WHEN stored.expires_at > clock_timestamp() THEN stored.version END AS version
	FROM _sluice_swaps LEFT JOIN LATERAL (SELECT * FROM TABLE AS t WHERE t.key = _sluice_swaps.key FOR UPDATE OFFSET 0) AS stored ON true
), _sluice_conflict AS MATERIALIZED (
	SELECT bool_or(old <> coalesce(version, 0)) AS has_conflict FROM _sluice_found
), _sluice_write AS (
	SELECT place, key, new, state, absent, CASE
		WHEN ttl > 0 THEN clock_timestamp() + ttl * interval '1 microsecond'
		WHEN ttl = 0 THEN 'infinity' ELSE '-infinity' END AS expires_at
	FROM _sluice_found WHERE NOT (SELECT has_conflict FROM _sluice_conflict)
), _sluice_created AS (
	INSERT INTO TABLE (key, version, state, expires_at, purge_at)
	SELECT key, new, state, expires_at, expires_at FROM _sluice_write WHERE absent ORDER BY place
	ON CONFLICT (key) DO NOTHING RETURNING key, version, state, expires_at
), _sluice_replaced AS (
	INSERT INTO TABLE AS t (key, version, state, expires_at, purge_at)
	SELECT key, new, state, expires_at, expires_at FROM _sluice_write WHERE NOT absent
	ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
		purge_at = least(t.purge_at, excluded.purge_at)
	RETURNING t.key, t.version, t.state, t.expires_at
)
SELECT place, version, CASE WHEN version IS NOT NULL THEN encode(old_state, 'hex') END, false AS created_meanwhile, 0, 0
FROM _sluice_found WHERE (SELECT has_conflict FROM _sluice_conflict)
UNION ALL
SELECT place, NULL, NULL, CASE WHEN cardinality($1::bytea[]) > 1 AND absent AND key NOT IN (SELECT key FROM _sluice_created) THEN UNDO
	WHEN absent AND NOT EXISTS (SELECT FROM _sluice_created) THEN true ELSE UNWRITTEN = 0 END, 0, 0
FROM _sluice_write WHERE (key, new, state, expires_at) IN (SELECT * FROM _sluice_created UNION ALL SELECT * FROM _sluice_replaced) IS NOT TRUE
