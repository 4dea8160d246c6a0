-- Decides the requests of a batch in their order; see driver.Batch.
--
-- states and versions have the stored record of each key: '' and 0 if the key is absent. The other
-- arrays, except args, have an element for each use, in the order of the requests. requests has the
-- number of the use's request, keys has the index of its key in states, and shadows has 1 for a
-- shadow use. The arguments of its program are args[begins:ends].
--
-- counts has Request.Applied of each request. replies has for each key the result of the last step
-- that changed its state, or NULL.
DECLARE
	n       CONSTANT int := cardinality(requests);
	first   int := 1; -- first and last are the uses of a request
	last    int;
	k       int;
	state   bytea;
	reply   bytea;
	count   bigint;
	changes    bytea[];  -- for each use, the result that changes the state
	applied bigint;
	allowed bool;
BEGIN
	replies := array_fill(NULL::bytea, ARRAY[cardinality(states)]);
	WHILE first <= n LOOP
		last := first;
		WHILE last < n AND requests[last + 1] = requests[first] LOOP
			last := last + 1;
		END LOOP;

		applied := 0;
		allowed := true;
		FOR i IN first..last LOOP
			k := keys[i];
			changes[i] := NULL;
			IF versions[k] = version THEN
				applied := -3; -- AlreadyStored
			END IF;
			CONTINUE WHEN applied < 0;
			IF ops[i] = 4 THEN -- Reset
				changes[i] := int8send(1);
			END IF;
			CONTINUE WHEN ops[i] > 2;
			state := states[k];
			FOR repetition IN 1..CASE ops[i] WHEN 0 THEN 1 ELSE times[i] END LOOP
				reply := SCHEMA.STEP(programs[i], ops[i], state, at, costs[i], CASE ops[i] WHEN 0 THEN times[i] ELSE 1 END, args[begins[i]:ends[i]]);
				count := ('x' || encode(substring(reply FOR 8), 'hex'))::bit(64)::bigint;
				IF count > 0 THEN
					applied := applied + count;
				ELSIF count = 0 THEN
					allowed := allowed AND shadows[i] = 1;
				ELSIF count = -2 OR shadows[i] = 0 THEN -- Declined, or Damaged
					applied := count;
				END IF;
				EXIT WHEN count <= 0;
				IF substring(reply FROM 17) <> state THEN
					changes[i] := reply;
					state := substring(reply FROM 17);
				END IF;
			END LOOP;
		END LOOP;

		IF NOT allowed THEN
			applied := least(applied, 0);
		ELSIF applied >= 0 THEN
			FOR i IN first..last LOOP
				CONTINUE WHEN changes[i] IS NULL;
				states[keys[i]] := substring(changes[i] FROM 17);
				replies[keys[i]] := changes[i];
			END LOOP;
		END IF;
		counts := counts || applied;
		first := last + 1;
	END LOOP;
END
