-- The moving window: the function decide of step.go, on the bytes of a state.
--
-- args: limit, width, slots, grain, weight, most, paidAt
DECLARE
	max      CONSTANT bigint := 4503599627370495; -- 2^52 - 1
	"limit"  CONSTANT bigint := args[1];
	width    CONSTANT bigint := args[2];
	slots    CONSTANT int := args[3];
	grain    CONSTANT bigint := args[4];
	weight   CONSTANT bigint := args[5];
	most     CONSTANT bigint := args[6];
	"paidAt" CONSTANT bigint := args[7];
	at       bigint := now;
	stored   bigint;      -- the time of the state
	was      bigint;
	size     int;         -- of a count, in bytes
	n        int := 0;    -- how many counts there are
	c        bigint;
	sum      bigint := 0;
	largest  bigint := 0;
	counts   bigint[] := '{}';
	older    bigint;
	"into"   bigint;      -- the time since the begin of the current slot
	recent   bigint := 0;
	"trailing" bigint := 0;
	overlap  bigint;
	"left"   bigint;
	newest   int := 1;    -- of the slots that give units back
	oldest   int;
	back     bigint;
	given    bigint := 0;
	changed  bool := true;
	first    int := 0;
	last     int := 0;
BEGIN
	IF state <> '' THEN
		IF length(state) < 19 OR get_byte(state, 0) <> 109 OR get_byte(state, 1) <> 1 THEN times := -1; RETURN; END IF;
		stored := ('x' || encode(substring(state FROM 3 FOR 7), 'hex'))::bit(56)::bigint;
		was := ('x' || encode(substring(state FROM 10 FOR 7), 'hex'))::bit(56)::bigint;
		size := get_byte(state, 16) / 8;
		n := get_byte(state, 16) % 8 * 256 + get_byte(state, 17);
		IF stored > max OR was NOT BETWEEN 1 AND max OR size NOT BETWEEN 1 AND 7 OR n > 1025 OR n * size <> length(state) - 18 THEN times := -1; RETURN; END IF;
		FOR i IN 1..n LOOP
			IF size = 1 THEN
				c := get_byte(state, 17 + i);
			ELSE
				c := ('x' || lpad(encode(substring(state FROM 19 + (i - 1) * size FOR size), 'hex'), 16, '0'))::bit(64)::bigint;
			END IF;
			counts[i] := c;
			largest := greatest(largest, c);
			sum := sum + c;
			IF sum > max THEN times := -1; RETURN; END IF;
		END LOOP;
		IF c = 0 OR size > 1 AND largest >> 8 * (size - 1) = 0 THEN times := -1; RETURN; END IF;
		IF was <> width OR sum > most + "limit" THEN times := -2; RETURN; END IF;
		at := greatest(stored, now);

		-- The counts grow older by the slots that have begun since.
		older := at / width - stored / width;
		IF older > slots THEN
			counts := '{}';
		ELSE
			counts := array_fill(0::bigint, ARRAY[older::int]) || counts[1:least(n, slots + 1 - older)];
		END IF;
		n := cardinality(counts);
	END IF;
	"into" := at % width;
	FOR i IN 1..n LOOP
		IF i <= slots THEN recent := recent + counts[i]; ELSE "trailing" := counts[i]; END IF;
	END LOOP;

	oldest := n;
	IF "paidAt" > 0 THEN
		newest := greatest(0, least(slots + 2, at / width - ("paidAt" - 1) / width + 1)); -- 0 and slots + 2 are no slots
		oldest := newest;
	END IF;

	IF op = 1 THEN -- refund
		FOR i IN greatest(newest, 1)..least(oldest, n) LOOP
			back := least(cost - given, counts[i]);
			counts[i] := counts[i] - back;
			given := given + back;
		END LOOP;
		changed := given > 0;
	ELSIF op = 0 AND "paidAt" > 0 THEN
		IF newest < 1 OR newest > n OR counts[newest] < cost THEN times := 0; RETURN; END IF;
		IF newest > 1 THEN
			times := least(times, counts[newest] / cost);
			counts[newest] := counts[newest] - cost * times;
			counts[1] := counts[1] + cost * times;
		END IF;
	ELSE
		IF op = 2 THEN -- charge
			cost := greatest(0, least(cost, most - recent - "trailing"));
			changed := cost > 0;
		ELSE
			overlap := least(weight, (width - "into" + grain - 1) / grain);
			"left" := "limit" - recent - ("trailing" * overlap + weight - 1) / weight;
			IF cost > "limit" OR cost > "left" THEN times := 0; RETURN; END IF;
			times := least(times, "left" / cost);
			cost := cost * times;
		END IF;
		n := greatest(n, 1);
		counts[1] := coalesce(counts[1], 0) + cost;
	END IF;

	largest := 0;
	FOR i IN REVERSE n..1 LOOP
		CONTINUE WHEN counts[i] = 0;
		first := i;
		last := greatest(i, last);
		largest := greatest(largest, counts[i]);
	END LOOP;
	IF first = 0 THEN state := CASE WHEN changed THEN '' ELSE state END; RETURN; END IF;
	IF changed THEN
		size := (length(to_hex(largest)) + 1) / 2;
		state := decode('6d01', 'hex') || substring(int8send(at) FROM 2) || substring(int8send(width) FROM 2) || int2send((size * 2048 + last)::smallint);
		FOR i IN 1..last LOOP
			state := state || substring(int8send(counts[i]) FROM 9 - size);
		END LOOP;
	END IF;
	ttl := at - "into" + (slots + 2 - first) * width - now;
END
