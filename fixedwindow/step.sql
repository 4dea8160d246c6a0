-- The fixed window: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count and period, 1 for windows by the clock, and the offset of these
DECLARE
	exact     CONSTANT bigint := 9007199254740992; -- 2^53
	period    CONSTANT bigint := args[2];
	size      CONSTANT int := length(state);
	b         int;
	start     bigint := at;
	used      bigint := 0;
	rest      bigint; -- of the window
	available bigint;
	next      bytea;
BEGIN
	IF size > 0 THEN
		IF size < 11 OR get_byte(state, 0) <> 102 OR get_byte(state, 1) <> 1 THEN RETURN int8send(-1); END IF;
		IF size > 18 THEN RETURN int8send(-2); END IF; -- Used has more than 56 bits
		FOR i IN 10..size - 1 LOOP
			b := get_byte(state, i);
			IF b >= 128 AND i = size - 1 OR b < 128 AND i < size - 1 THEN RETURN int8send(-1); END IF;
			used := used + ((b & 127)::bigint << 7 * (i - 10));
		END LOOP;
		start := ('x' || encode(substring(state FROM 3 FOR 8), 'hex'))::bit(64)::bigint;
		IF b = 0 OR start < 0 OR start >= 4611686018427387904 THEN RETURN int8send(-1); END IF;
		IF used >= exact THEN RETURN int8send(-2); END IF;
	END IF;
	LOOP
		rest := period + start - at;
		IF args[3] = 1 THEN
			rest := rest - (start % period - args[4] + period) % period;
		END IF;
		EXIT WHEN rest > 0;
		start := at;
		used := 0;
	END LOOP;

	IF op = 0 THEN -- allow
		available := args[1] - used;
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
	IF used >= exact THEN RETURN int8send(-2); END IF;

	next := decode('6601', 'hex') || int8send(start);
	WHILE used >= 128 LOOP
		next := next || set_byte(decode('00', 'hex'), 0, (used & 127 | 128)::int);
		used := used >> 7;
	END LOOP;
	RETURN int8send(times) || int8send(rest) || next || set_byte(decode('00', 'hex'), 0, used::int);
END
