-- Decides a batch of one request with one use, as the statements in run_sql.go do, but quicker.
--
-- found and was are what is stored before: null and '' for an absent key. count is what Step
-- returned first.
DECLARE
	clock   timestamptz;
	expires timestamptz;
	absent  bool;
	changes int := 0;
	reply   bytea;
	next    bytea;
	lasts   bigint; -- in microseconds
	setting text;
BEGIN
	IF lock_timeout_ms > 0 THEN
		setting := current_setting('lock_timeout');
		IF setting::interval NOT BETWEEN interval '1 microsecond' AND lock_timeout_ms * interval '1 millisecond' THEN
			setting := set_config('lock_timeout', lock_timeout_ms::text, true);
		END IF;
	END IF;
	FOR attempt IN 1..10 LOOP -- again if another creates the key meanwhile
		SELECT t.version, t.state, t.expires_at INTO seen, was, expires FROM TABLE AS t WHERE t.key = name FOR UPDATE;
		absent := seen IS NULL;
		clock := clock_timestamp();
		at := coalesce(now, round(extract(epoch FROM clock) * 1000000)::bigint * 1000);
		IF absent OR expires <= clock THEN
			seen := NULL;
			was := '';
		END IF;
		count := 0;
		IF seen = batch OR op = 3 THEN -- Stored, or Peek
			RETURN;
		END IF;
		IF op = 4 THEN -- Reset
			reply := int8send(1);
		ELSE
			reply := STEP(program, op, was, at, cost, times, args);
		END IF;
		count := ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint;
		next := substring(reply FROM 17);
		IF count <= 0 OR next = '' AND seen IS NULL OR next <> '' AND next = was THEN
			RETURN;
		END IF;

		lasts := ('x' || encode(substring(reply FROM 9 FOR 8), 'hex'))::bit(64)::bigint;
		IF next = '' THEN
			expires := '-infinity';
		ELSIF lasts = 0 OR lasts / 1000 + 1 + margin >= 3155760000000000 THEN -- 100 years
			expires := 'infinity';
		ELSE
			expires := greatest(clock, timestamptz 'epoch' + (at / 1000 + 1) * interval '1 microsecond') + (lasts / 1000 + 1 + margin) * interval '1 microsecond';
		END IF;
		IF NOT absent THEN
			UPDATE TABLE AS t SET version = batch, state = next, expires_at = expires, purge_at = least(t.purge_at, expires) WHERE t.key = name;
			RETURN;
		END IF;
		INSERT INTO TABLE (key, version, state, expires_at, purge_at) VALUES (name, batch, next, expires, expires) ON CONFLICT (key) DO NOTHING;
		GET DIAGNOSTICS changes = ROW_COUNT;
		IF changes > 0 THEN
			RETURN;
		END IF;
	END LOOP;
	RAISE EXCEPTION 'sluice: the row is neither there nor can it be inserted: does the table have a trigger, or row-level security?';
END
