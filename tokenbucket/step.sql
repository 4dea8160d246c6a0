-- The token bucket: the function decide of step.go, on the bytes of a state.
--
-- args: the amount that accrues in a nanosecond and the amount that makes a refill, both divided by
-- their greatest common divisor, that divisor, the burst, the tokens of a refill, and 1 if these come at once
DECLARE
	exact     CONSTANT bigint := 9007199254740992; -- 2^53
	speed     CONSTANT bigint := args[1];
	period    CONSTANT bigint := args[2];
	divisor   CONSTANT bigint := args[3];
	batch     CONSTANT bigint := args[5];
	size      CONSTANT int := length(state);
	widths    int; -- of Used, and of Part and Period, in bytes
	u         int;
	p         int;
	since     bigint;
	used      bigint := 0;
	part      bigint := 0;
	was       bigint; -- the period of the state
	refills   bigint;
	missing   bigint;
	accrued   bigint;
	skew      bigint := 0;
	available bigint;
BEGIN
	IF size > 0 THEN
		IF size < 12 OR get_byte(state, 0) <> 116 OR get_byte(state, 1) <> 1 THEN RETURN int8send(-1); END IF;
		widths := get_byte(state, 2);
		u := widths >> 4;
		p := widths & 15;
		IF u = 0 OR u > 8 OR p > 8 OR p = 0 OR size <> 11 + u + 2 * p THEN RETURN int8send(-1); END IF;
		IF get_byte(state, 11) = 0 OR get_byte(state, 11 + u + p) = 0 THEN RETURN int8send(-1); END IF;
		since := ('x' || encode(substring(state FROM 4 FOR 8), 'hex'))::bit(64)::bigint;
		used := (('x' || encode(substring(state FROM 12 FOR u), 'hex'))::bit(64) >> 64 - 8 * u)::bigint;
		part := (('x' || encode(substring(state FROM 12 + u FOR p), 'hex'))::bit(64) >> 64 - 8 * p)::bigint;
		was := (('x' || encode(substring(state FROM 12 + u + p), 'hex'))::bit(64) >> 64 - 8 * p)::bigint;
		IF since < 0 OR since >= 4611686018427387904 THEN RETURN int8send(-1); END IF;
		IF used < 0 OR used >= exact OR was < 0 OR was >= exact THEN RETURN int8send(-2); END IF;
		IF part >= was THEN RETURN int8send(-1); END IF;
		IF args[6] = 1 THEN
			part := part % period;
		ELSIF part > 0 AND was <> period * divisor OR part % divisor <> 0 THEN
			RETURN int8send(-2);
		END IF;
		part := part / divisor;
		refills := (used - 1) / batch + 1;
		IF refills > exact / period THEN RETURN int8send(-2); END IF;
		missing := refills * period;
		IF missing >= exact THEN RETURN int8send(-2); END IF;
		missing := missing - part;

		IF since > at THEN
			skew := since - at;
			at := since;
		ELSIF at - since > (missing - 1) / speed THEN
			used := 0;
			part := 0;
		ELSE
			accrued := (at - since) * speed + part;
			part := accrued % period;
			used := used - accrued / period * batch;
		END IF;
	END IF;

	IF op = 0 THEN -- allow
		available := args[4] - used;
		IF available < cost THEN RETURN int8send(0) || int8send(0) || state; END IF;
		times := least(times, available / cost);
		used := used + cost * times;
	ELSIF op = 2 THEN -- charge
		used := used + cost;
	ELSE
		IF used = 0 THEN RETURN int8send(1) || int8send(0) || state; END IF;
		IF cost >= used THEN RETURN int8send(1); END IF;
		used := used - cost;
	END IF;
	refills := (used - 1) / batch + 1;
	IF used >= exact OR refills > exact / period THEN RETURN int8send(-2); END IF;
	missing := refills * period;
	IF missing >= exact THEN RETURN int8send(-2); END IF;

	was := period * divisor;
	u := (length(to_hex(used)) + 1) / 2;
	p := (length(to_hex(was)) + 1) / 2;
	RETURN int8send(times) || int8send(skew + (missing - part + speed - 1) / speed)
		|| set_byte(decode('740100', 'hex'), 2, u * 16 + p) || int8send(at) || substring(int8send(used) FROM 9 - u)
		|| substring(int8send(part * divisor) FROM 9 - p) || substring(int8send(was) FROM 9 - p);
END
