#variable_conflict use_column
DECLARE
	setting text;
BEGIN
	IF $1 > 0 THEN -- before the statement, whose plan locks the table
		setting := current_setting('lock_timeout');
		IF setting::interval NOT BETWEEN interval '1 microsecond' AND $1 * interval '1 millisecond' THEN
			setting := set_config('lock_timeout', $1::text, true);
		END IF;
	END IF;
	RETURN QUERY WITH _sluice_args AS MATERIALIZED (
		SELECT $2 AS batch, $3 AS now, $4 AS margin, $5 AS keys,
			$6 AS requests, $7 AS places, $8 AS ops, $9 AS shadows, $10 AS programs,
			$11 AS begins, $12 AS ends, $13 AS costs, $14 AS times, $15 AS args
	), _sluice_keys AS (
		SELECT w.* FROM _sluice_args CROSS JOIN LATERAL KEYS
	), _sluice_locked AS MATERIALIZED (
		SELECT _sluice_keys.*, stored.key IS NULL AS absent, stored.version, stored.state, stored.expires_at
		FROM _sluice_keys LEFT JOIN LATERAL (SELECT * FROM SCHEMA.TABLE AS t WHERE t.key = _sluice_keys.key FOR UPDATE OFFSET 0) AS stored ON true
	), _sluice_time AS MATERIALIZED (
		SELECT clock, coalesce(now, round(extract(epoch FROM clock) * 1000000)::bigint) AS at, batch, margin
		FROM _sluice_args CROSS JOIN (SELECT clock_timestamp() AS clock, count(*) AS locked FROM _sluice_locked) AS c WHERE locked >= 0
	), _sluice_found AS MATERIALIZED (
		SELECT _sluice_locked.*, _sluice_time.*, CASE WHEN expires_at > clock THEN version END AS old_version, CASE WHEN expires_at > clock THEN state ELSE '' END AS old_state
		FROM _sluice_locked CROSS JOIN _sluice_time
	), _sluice_decided AS MATERIALIZED (
		DECIDED
	), _sluice_write AS MATERIALIZED (
		SELECT place, key, absent, batch, next, CASE WHEN next = '' THEN '-infinity' WHEN ttl = 0 OR ttl_us >= 3155760000000000 THEN 'infinity'
			ELSE greatest(clock, timestamptz 'epoch' + at * interval '1 microsecond') + ttl_us * interval '1 microsecond' END AS expires_at
		FROM (
			SELECT *, ttl + margin AS ttl_us FROM (
				SELECT *, ('x' || encode(substring(reply FROM 9 FOR 8), 'hex'))::bit(64)::bigint AS ttl, substring(reply FROM 17) AS next
				FROM _sluice_decided WHERE count > 0
			) AS d
		) AS d WHERE next <> '' AND (always_write OR next <> old_state) OR next = '' AND old_version IS NOT NULL
	), _sluice_created AS (
		INSERT INTO SCHEMA.TABLE (key, version, state, expires_at, purge_at)
		SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE absent ORDER BY place
		ON CONFLICT (key) DO NOTHING RETURNING key, version, state, expires_at
	), _sluice_replaced AS (
		INSERT INTO SCHEMA.TABLE AS t (key, version, state, expires_at, purge_at)
		SELECT key, batch, next, expires_at, expires_at FROM _sluice_write WHERE NOT absent
		ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
			purge_at = least(t.purge_at, excluded.purge_at)
		RETURNING t.key, t.version, t.state, t.expires_at
	), _sluice_not_created AS (
		SELECT CASE WHEN absent AND key NOT IN (SELECT key FROM _sluice_created) AND NOT EXISTS (SELECT FROM _sluice_created WHERE key NOT IN (SELECT key FROM _sluice_write))
			THEN place ELSE UNWRITTEN END AS place FROM _sluice_write
		WHERE (key, batch, next, expires_at) IN (SELECT * FROM _sluice_created UNION ALL SELECT * FROM _sluice_replaced) IS NOT TRUE
	)
	RETURNED;
END
