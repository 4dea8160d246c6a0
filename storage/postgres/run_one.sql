-- Decides a batch of one request with one use. The result is that of the statements in statements.go,
-- but this function is faster.
--
-- old_version and old_state are the record before the decision: NULL and '' for an absent key. count
-- is the first result of Step. kept is how long the record of a denied request will be kept, in microseconds.
#variable_conflict use_variable
DECLARE
	clock   timestamptz;
	expires timestamptz;
	absent  bool;
	written bool;
	reply   bytea;
	next    bytea;
	ttl   bigint; -- the TTL in microseconds
	setting text;
BEGIN
	IF lock_timeout_ms > 0 THEN
		setting := current_setting('lock_timeout');
		IF setting::interval NOT BETWEEN interval '1 microsecond' AND lock_timeout_ms * interval '1 millisecond' THEN
			setting := set_config('lock_timeout', lock_timeout_ms::text, true);
		END IF;
	END IF;
	FOR attempt IN 1..10 LOOP -- again if another transaction creates the key
		SELECT t.version, t.state, t.expires_at INTO old_version, old_state, expires FROM SCHEMA.TABLE AS t WHERE t.key = name FOR UPDATE;
		absent := old_version IS NULL;
		clock := clock_timestamp();
		at := coalesce(now, round(extract(epoch FROM clock) * 1000000)::bigint);
		IF absent OR expires <= clock THEN
			old_version := NULL;
			old_state := '';
		END IF;
		count := 0;
		IF old_version = batch OR op = 3 THEN -- AlreadyStored, or Peek
			RETURN;
		END IF;
		IF op = 4 THEN -- Reset
			reply := int8send(1);
		ELSE
			reply := SCHEMA.STEP(program, op, old_state, at, cost, times, args);
		END IF;
		count := ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint;
		next := substring(reply FROM 17);
		IF count > 0 AND next = '' AND absent THEN -- nothing to delete, unless a policy hides the row from updates
			CONTINUE WHEN EXISTS (SELECT FROM SCHEMA.TABLE AS t WHERE t.key = name);
		END IF;
		IF count = 0 AND old_version IS NOT NULL AND expires < 'infinity' THEN
			kept := ceil(extract(epoch FROM expires - clock) * 1000000)::bigint;
		END IF;
		IF count <= 0 OR next = '' AND old_version IS NULL OR next <> '' AND next = old_state THEN
			RETURN;
		END IF;

		ttl := ('x' || encode(substring(reply FROM 9 FOR 8), 'hex'))::bit(64)::bigint;
		IF next = '' THEN
			expires := '-infinity';
		ELSIF ttl = 0 OR ttl + margin >= 3155760000000000 THEN -- 100 years
			expires := 'infinity';
		ELSE
			expires := greatest(clock, timestamptz 'epoch' + at * interval '1 microsecond') + (ttl + margin) * interval '1 microsecond';
		END IF;
		IF absent THEN
			INSERT INTO SCHEMA.TABLE AS t (key, version, state, expires_at, purge_at) VALUES (name, batch, next, expires, expires) ON CONFLICT (key) DO NOTHING
				RETURNING t.key = name AND t.version = batch AND t.state = next AND t.expires_at = expires INTO written;
			CONTINUE WHEN NOT FOUND;
		ELSE
			UPDATE SCHEMA.TABLE AS t SET version = batch, state = next, expires_at = expires, purge_at = least(t.purge_at, expires) WHERE t.key = name
				RETURNING t.key = name AND t.version = batch AND t.state = next AND t.expires_at = expires INTO written;
		END IF;
		EXIT WHEN written IS NOT TRUE;
		RETURN;
	END LOOP;
	RAISE EXCEPTION 'UNWRITTEN';
END
