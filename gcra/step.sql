-- GCRA: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count and period divided by their greatest common divisor, that divisor, the burst
DECLARE
	exact     CONSTANT bigint := 9007199254740992; -- 2^53
	speed     CONSTANT bigint := args[1];
	period    CONSTANT bigint := args[2];
	divisor   CONSTANT bigint := args[3];
	size      CONSTANT int := length(state);
	widths    int; -- of Used, and of Part and Period, in bytes
	u         int;
	p         int;
	since     bigint := at;
	used      bigint := 0;
	part      bigint := 0;
	was       bigint; -- the period of the state
	owed      bigint := 0;
	drained   bigint;
	available bigint;
	before    bigint;
	after     bigint;
BEGIN
	IF size > 0 THEN
		IF size < 12 OR get_byte(state, 0) <> 103 OR get_byte(state, 1) <> 1 THEN RETURN int8send(-1); END IF;
		widths := get_byte(state, 2);
		u := widths >> 4;
		p := widths & 15;
		IF u > 8 OR p > 8 OR p = 0 OR size <> 11 + u + 2 * p THEN RETURN int8send(-1); END IF;
		IF u > 0 AND get_byte(state, 11) = 0 OR get_byte(state, 11 + u + p) = 0 THEN RETURN int8send(-1); END IF;
		since := ('x' || encode(substring(state FROM 4 FOR 8), 'hex'))::bit(64)::bigint;
		used := (('x' || encode(substring(state FROM 12 FOR u), 'hex'))::bit(64) >> 64 - 8 * u)::bigint;
		part := (('x' || encode(substring(state FROM 12 + u FOR p), 'hex'))::bit(64) >> 64 - 8 * p)::bigint;
		was := (('x' || encode(substring(state FROM 12 + u + p), 'hex'))::bit(64) >> 64 - 8 * p)::bigint;
		IF since < 0 OR since >= 4611686018427387904 THEN RETURN int8send(-1); END IF;
		IF used < 0 OR used >= exact OR was < 0 OR was >= exact THEN RETURN int8send(-2); END IF;
		IF part >= was THEN RETURN int8send(-1); END IF;
		IF part > 0 AND was <> period * divisor OR part % divisor <> 0 THEN RETURN int8send(-2); END IF;
		part := part / divisor;
		IF used > exact / period THEN RETURN int8send(-2); END IF;
		owed := used * period + part;
		IF owed >= exact THEN RETURN int8send(-2); END IF;
	END IF;

	-- Every nanosecond subtracts `speed` from owed. A clock that is behind sees more owed.
	IF since > at THEN
		drained := CASE WHEN since - at > exact / speed THEN -exact ELSE (at - since) * speed END;
	ELSE
		drained := CASE WHEN at - since > owed / speed THEN owed ELSE (at - since) * speed END;
	END IF;
	IF op = 0 THEN -- allow
		owed := owed - drained;
		IF owed >= exact THEN RETURN int8send(-2); END IF;
		available := (args[4] * period - owed) / period;
		IF available < cost THEN RETURN int8send(0) || int8send(0) || state; END IF;
		times := least(times, available / cost);
		cost := cost * times;
		IF since > at THEN
			used := used + cost;
		ELSE
			since := at;
			drained := 0;
			used := owed / period;
			part := owed - used * period;
			used := used + cost;
		END IF;
	ELSE
		IF since <= at THEN
			since := at;
			owed := owed - drained;
			drained := 0;
			used := owed / period;
			part := owed - used * period;
		END IF;
		before := CASE WHEN part > 0 THEN used + 1 ELSE used END;
		IF op = 2 THEN -- charge
			used := used + cost;
		ELSIF cost > used THEN
			used := 0;
			part := 0;
		ELSE
			used := used - cost;
		END IF;
		after := CASE WHEN part > 0 THEN used + 1 ELSE used END;
		IF before = after THEN RETURN int8send(1) || int8send(0) || state; END IF;
		IF after = 0 THEN RETURN int8send(1); END IF;
		IF used > exact / period THEN RETURN int8send(-2); END IF;
	END IF;
	owed := used * period + part - drained;
	IF owed >= exact THEN RETURN int8send(-2); END IF;

	was := period * divisor;
	u := CASE used WHEN 0 THEN 0 ELSE (length(to_hex(used)) + 1) / 2 END;
	p := (length(to_hex(was)) + 1) / 2;
	RETURN int8send(times) || int8send((owed + speed - 1) / speed)
		|| set_byte(decode('670100', 'hex'), 2, u * 16 + p) || int8send(since) || substring(int8send(used) FROM 9 - u)
		|| substring(int8send(part * divisor) FROM 9 - p) || substring(int8send(was) FROM 9 - p);
END
