-- Decides a batch; see driver.Batch. It locks the existing rows in the order of their keys, reads the clock,
-- decides the requests in their order, and writes the changed rows.
--
-- lock_timeout is in milliseconds; 0 means none. at is the time of the batch in microseconds; if it is NULL,
-- it becomes that of the clock. margin is in microseconds. keys are sorted. uses has nine numbers for each use:
--
--	1 the index of its key; 2 op; 3 whether it is no shadow; 4 the number of its program;
--	5, 6 the first and the last index of the program's arguments in args; 7 cost; 8 times;
--	9 the number of further uses of the same request
--
-- versions, states (in hexadecimal) and ttls (in microseconds) have the records before the batch. A version is
-- 0 if the record is absent. A TTL is 0 if the record never expires, or if no use of its key was denied.
-- applied has Request.Applied of each request.
#variable_conflict use_variable
DECLARE
	setting  text;
	clock    timestamptz;
	stored   timestamptz[]; -- the expiries of the stored rows; NULL for a missing row
	nexts    bytea[];       -- the states that the decided requests leave
	expiries timestamptz[]; -- of the changed states; NULL for an unchanged state
	before_nexts    bytea[]; -- nexts and expiries before a request with several uses; NULL during one with a single use
	before_expiries timestamptz[];
	k        int;
	r        record;
	n        int := 0;       -- the numbers of the uses so far
	start    int;            -- n before the first use of a request with several
	total    bigint := 0;    -- Applied of the request
	denied   bool;
	fewest   bigint;         -- the fewest steps of a use that is no shadow
	steps    bigint;         -- the most steps of a use
	most     bigint;         -- how many steps all uses of the request allow
	changed  int;            -- the number of expiries
	written  int;
BEGIN
	-- Before the next statement, whose plan locks the table.
	IF lock_timeout > 0 AND (current_setting('lock_timeout') = '0' OR current_setting('lock_timeout')::interval > lock_timeout * interval '1 millisecond') THEN
		setting := set_config('lock_timeout', lock_timeout::text, true);
	END IF;
	SELECT array_agg(coalesce(found.version, 0)), array_agg(coalesce(encode(found.state, 'hex'), '')), array_agg(coalesce(found.state, '')), array_agg(found.expires_at)
	INTO versions, states, nexts, stored
	FROM (SELECT keys AS all_keys OFFSET 0) AS a CROSS JOIN LATERAL unnest(a.all_keys) AS u (key)
	LEFT JOIN LATERAL (SELECT t.version, t.state, t.expires_at FROM SCHEMA.TABLE AS t WHERE t.key = u.key FOR UPDATE OFFSET 0) AS found ON true;
	ttls := array_fill(0::bigint, ARRAY[cardinality(keys)]);
	expiries := array_fill(NULL::timestamptz, ARRAY[cardinality(keys)]);
	clock := clock_timestamp();
	at := coalesce(at, (extract(epoch FROM clock) * 1000000)::bigint);
	IF clock >= ANY (stored) THEN
		FOR i IN 1..cardinality(keys) LOOP
			CONTINUE WHEN stored[i] > clock;
			versions[i] := 0;
			nexts[i] := '';
		END LOOP;
	END IF;

	WHILE n < cardinality(uses) LOOP
		IF uses[n + 9] > 0 AND before_nexts IS NULL THEN
			start := n;
			before_nexts := nexts;
			before_expiries := expiries;
		END IF;
		IF total >= 0 THEN
			k := uses[n + 1];
			r := STEP(uses[n + 4], uses[n + 2]::int, nexts[k], at, uses[n + 7], coalesce(most, uses[n + 8]), args[uses[n + 5]:uses[n + 6]]);
			IF r.times > 0 THEN
				total := total + r.times;
				IF before_nexts IS NOT NULL THEN
					steps := greatest(steps, r.times);
					IF uses[n + 3] = 1 THEN fewest := least(fewest, r.times); END IF;
				END IF;
				IF r.state <> nexts[k] THEN
					nexts[k] := r.state;
					expiries[k] := CASE WHEN r.state = '' THEN '-infinity'
						WHEN r.ttl > 0 AND r.ttl + margin < 3155760000000000 THEN greatest(clock, timestamptz 'epoch' + at * interval '1 microsecond') + (r.ttl + margin) * interval '1 microsecond'
						ELSE 'infinity' END; -- after 100 years
				END IF;
			ELSIF r.times = 0 THEN
				denied := denied OR uses[n + 3] = 1;
				IF versions[k] <> 0 AND stored[k] < 'infinity' THEN
					ttls[k] := ceil(extract(epoch FROM stored[k] - clock) * 1000000)::bigint;
				END IF;
			ELSIF r.times = -2 OR uses[n + 3] = 1 THEN -- Declined, or Damaged
				total := r.times;
			END IF;
		END IF;
		n := n + 9;
		CONTINUE WHEN uses[n] > 0;
		IF denied THEN
			total := least(total, 0);
			denied := NULL;
		END IF;
		IF before_nexts IS NOT NULL THEN
			most := CASE WHEN total > 0 AND steps > fewest THEN fewest END;
			IF total <= 0 OR most IS NOT NULL THEN
				nexts := before_nexts;
				expiries := before_expiries;
			END IF;
			fewest := NULL;
			steps := NULL;
			before_nexts := NULL;
			IF most IS NOT NULL THEN -- decide the request again
				n := start;
				total := 0;
				CONTINUE;
			END IF;
		END IF;
		applied := applied || total;
		total := 0;
	END LOOP;
	changed := cardinality(array_remove(expiries, NULL));

	IF changed > 0 THEN
		WITH _sluice_changed AS (
			SELECT u.key, u.state, u.expiry, u.stored IS NULL AS absent FROM unnest(keys, nexts, expiries, stored) AS u (key, state, expiry, stored) WHERE u.expiry IS NOT NULL
		), _sluice_created AS (
			INSERT INTO SCHEMA.TABLE (key, version, state, expires_at, purge_at)
			SELECT c.key, batch, c.state, c.expiry, c.expiry FROM _sluice_changed AS c WHERE c.absent
			ON CONFLICT (key) DO NOTHING RETURNING key, version, state, expires_at
		), _sluice_replaced AS (
			INSERT INTO SCHEMA.TABLE AS t (key, version, state, expires_at, purge_at)
			SELECT c.key, batch, c.state, c.expiry, c.expiry FROM _sluice_changed AS c WHERE NOT c.absent
			ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, expires_at = excluded.expires_at,
				purge_at = least(t.purge_at, excluded.purge_at)
			RETURNING t.key, t.version, t.state, t.expires_at
		)
		SELECT count(*) INTO written FROM (SELECT * FROM _sluice_created UNION ALL SELECT * FROM _sluice_replaced) AS w
			WHERE w.version = batch AND w.state = nexts[array_position(keys, w.key)] AND w.expires_at = expiries[array_position(keys, w.key)];
		IF written < changed THEN
			RAISE EXCEPTION 'sluice: created meanwhile: %', num_nulls(VARIADIC stored);
		END IF;
	END IF;
END
