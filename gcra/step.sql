-- GCRA: the function decide of step.go, on the bytes of a state.
--
-- args: burst, unit, drain
DECLARE
	max    CONSTANT bigint := 4503599627370495; -- 2^52 - 1
	burst  CONSTANT bigint := args[1];
	unit   CONSTANT bigint := args[2];
	drain  CONSTANT bigint := args[3];
	at     bigint := now;
	level  bigint := 0;
	was    bigint;
	passed bigint;
	skew   bigint := 0;
	seen   bigint;
	paid   bigint;
BEGIN
	IF state <> '' THEN
		IF length(state) <> 25 OR get_byte(state, 0) <> 103 OR get_byte(state, 1) <> 1 THEN times := -1; RETURN; END IF;
		at := ('x' || encode(substring(state FROM 3 FOR 7), 'hex'))::bit(56)::bigint;
		level := ('x' || encode(substring(state FROM 10 FOR 8), 'hex'))::bit(64)::bigint;
		was := ('x' || encode(substring(state FROM 18 FOR 8), 'hex'))::bit(64)::bigint;
		IF at > max OR level NOT BETWEEN 1 AND max OR was NOT BETWEEN 1 AND max THEN times := -1; RETURN; END IF;
		IF was <> unit THEN level := least((level + was - 1) / was, max / unit) * unit; END IF;
	END IF;

	passed := now - at;
	IF passed < 0 THEN
		skew := -passed;
	ELSIF passed >= (level + drain - 1) / drain THEN
		at := now;
		level := 0;
	ELSE
		at := now;
		level := level - passed * drain;
	END IF;
	seen := CASE WHEN skew > (max - level) / drain THEN max ELSE level + skew * drain END;

	IF op = 1 THEN -- refund
		paid := -least(cost, (level + unit - 1) / unit);
	ELSIF op = 2 THEN -- charge
		paid := least(cost, (max - level) / unit);
	ELSIF cost > burst OR seen + least(cost, burst) * unit > burst * unit THEN
		times := 0;
		RETURN;
	ELSE
		times := least(times, (burst * unit - seen) / (cost * unit));
		paid := cost * times;
	END IF;

	level := greatest(0, level + paid * unit);
	IF level = 0 THEN state := CASE paid WHEN 0 THEN state ELSE '' END; RETURN; END IF;
	IF paid <> 0 THEN state := decode('6701', 'hex') || substring(int8send(at) FROM 2) || int8send(level) || int8send(unit); END IF;
	ttl := skew + (level + drain - 1) / drain;
END
