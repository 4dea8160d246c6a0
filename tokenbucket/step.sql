-- The token bucket: the function decide of step.go, on the bytes of a state.
--
-- args: burst, unit, drain, every, most
DECLARE
	max     CONSTANT bigint := 4503599627370495; -- 2^52 - 1
	begun   CONSTANT bigint := 2251799813685248; -- 2^51
	burst   CONSTANT bigint := args[1];
	unit    bigint := args[2];
	drain   CONSTANT bigint := args[3];
	every   CONSTANT bigint := args[4];
	most    CONSTANT bigint := args[5];
	last    bigint := now;
	at      bigint := now;
	level   bigint := 0;
	was     bigint;
	passed  bigint := 0;
	refills bigint;
	paid    bigint;
BEGIN
	IF state <> '' THEN
		IF length(state) <> 25 OR get_byte(state, 0) <> 116 OR get_byte(state, 1) <> 1 THEN times := -1; RETURN; END IF;
		last := ('x' || encode(substring(state FROM 3 FOR 7), 'hex'))::bit(56)::bigint;
		level := ('x' || encode(substring(state FROM 10 FOR 8), 'hex'))::bit(64)::bigint;
		was := ('x' || encode(substring(state FROM 18 FOR 8), 'hex'))::bit(64)::bigint;
		IF last > max OR level NOT BETWEEN 1 AND max OR was NOT BETWEEN 1 AND max THEN times := -1; RETURN; END IF;
		IF was >= begun THEN
			passed := was - begun;
			was := 1;
		END IF;
		at := last - passed % every;
		IF was <> unit THEN level := least((level + was - 1) / was, most / unit) * unit; END IF;
		level := least(level, most);
	END IF;

	refills := greatest(0, now - at) / every;
	IF refills >= (level + drain - 1) / drain THEN
		at := now;
		level := 0;
	ELSE
		at := at + refills * every;
		level := level - refills * drain;
	END IF;

	IF op = 1 THEN -- refund
		paid := -least(cost, (level + unit - 1) / unit);
	ELSIF op = 2 THEN -- charge
		paid := least(cost, (most - level) / unit);
	ELSIF cost > burst THEN
		times := 0;
		RETURN;
	ELSIF level + cost * unit > burst * unit THEN
		times := 0;
		RETURN;
	ELSE
		times := least(times, (burst * unit - level) / (cost * unit));
		paid := cost * times;
	END IF;

	level := greatest(0, level + paid * unit);
	IF level = 0 THEN state := CASE paid WHEN 0 THEN state ELSE '' END; RETURN; END IF;
	IF paid <> 0 THEN
		last := greatest(last, now);
		IF every > 1 THEN unit := begun + last - at; END IF;
		state := decode('7401', 'hex') || substring(int8send(last) FROM 2) || int8send(level) || int8send(unit);
	END IF;
	ttl := at + (level + drain - 1) / drain * every - now;
END
