-- The fixed window: the function decide of step.go, on the bytes of a state.
--
-- args: limit, period, offset
DECLARE
	max      CONSTANT bigint := 4503599627370495; -- 2^52 - 1
	"limit"  CONSTANT bigint := args[1];
	period   CONSTANT bigint := args[2];
	"offset" CONSTANT bigint := args[3];
	start    bigint := 0;
	used     bigint := 0;
	ends     bigint;
	paid     bigint;
BEGIN
	IF state <> '' THEN
		IF length(state) <> 17 OR get_byte(state, 0) <> 102 OR get_byte(state, 1) <> 1 THEN times := -1; RETURN; END IF;
		start := ('x' || encode(substring(state FROM 3 FOR 7), 'hex'))::bit(56)::bigint;
		used := ('x' || encode(substring(state FROM 10 FOR 8), 'hex'))::bit(64)::bigint;
		IF start > max OR used NOT BETWEEN 1 AND max THEN times := -1; RETURN; END IF;
	END IF;

	ends := start + period - CASE WHEN "offset" < 0 THEN 0 ELSE (start + period - "offset") % period END;
	IF used = 0 OR now >= ends THEN
		start := now;
		used := 0;
		ends := now + period - CASE WHEN "offset" < 0 THEN 0 ELSE (now + period - "offset") % period END;
	END IF;

	IF op = 1 THEN -- refund
		paid := -least(cost, used);
	ELSIF op = 2 THEN -- charge
		paid := least(cost, max - used);
	ELSIF cost > "limit" OR cost > "limit" - used THEN
		times := 0;
		RETURN;
	ELSE
		times := least(times, ("limit" - used) / cost);
		paid := cost * times;
	END IF;

	used := used + paid;
	IF used = 0 THEN state := CASE paid WHEN 0 THEN state ELSE '' END; RETURN; END IF;
	IF paid <> 0 THEN state := decode('6601', 'hex') || substring(int8send(start) FROM 2) || int8send(used); END IF;
	ttl := ends - now;
END
