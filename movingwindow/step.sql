-- The moving window: the function decide of step.go, on the bytes of a state.
--
-- args: the limit's count, the width of a slot, the number of slots, and 1 if the trailing slot
-- counts whole
DECLARE
	exact     CONSTANT bigint := 9007199254740992; -- 2^53
	slot      CONSTANT bigint := args[2];
	slots     CONSTANT int := args[3];
	size      CONSTANT int := length(state);
	since     bigint;
	passed    bigint; -- of the current slot
	skew      bigint := 0;
	age       int := 0;    -- how many slots have begun since the state was written
	n         int := 0;    -- how many counts there are
	pos       int;         -- of the next byte of the state
	b         int;
	x         bigint;
	sum       bigint := 0; -- of all counts
	newest    bigint := 0; -- the count of the current slot
	recent    bigint := 0; -- the counts of the window
	leaving   bigint := 0; -- the count of the trailing slot
	old       int;         -- where the counts begin that are older than the newest
	past      int;         -- the position after the last count that is neither 0 nor too old
	last      int := 0;    -- the index of that count in the stored state
	counts    bigint[];    -- for a refund
	share     bigint := 0; -- of the trailing slot
	available bigint;
	back      bigint;
	head      bigint[];    -- the numbers to write,
	tail      bytea := ''; -- and the bytes that follow
	next      bytea;
	first     int := 1;    -- the index of the newest count that is not 0
BEGIN
	IF size > 0 THEN
		IF size < 20 OR get_byte(state, 0) <> 109 OR get_byte(state, 1) <> 1 THEN RETURN int8send(-1); END IF;
		since := ('x' || encode(substring(state FROM 3 FOR 8), 'hex'))::bit(64)::bigint;
		x := ('x' || encode(substring(state FROM 11 FOR 8), 'hex'))::bit(64)::bigint;
		n := get_byte(state, 18);
		pos := 19;
		IF n >= 128 THEN
			n := n - 128 + 128 * get_byte(state, 19);
			pos := 20;
			IF n < 128 THEN RETURN int8send(-1); END IF;
		END IF;
		IF since < 0 OR since >= 4611686018427387904 OR x < 0 OR n = 0 OR n > 1025 THEN RETURN int8send(-1); END IF;
		IF x <> slot OR n > slots + 1 THEN RETURN int8send(-2); END IF;
		IF since > at THEN
			skew := since - at;
			at := since;
		END IF;
	END IF;

	-- The counts grow older by the slots that have begun since.
	passed := at % slot;
	IF n > 0 AND at - since > passed THEN
		age := least((at - since - passed + slot - 1) / slot, slots + 2);
	END IF;
	old := pos;
	FOR i IN 1..n LOOP
		IF pos >= size THEN RETURN int8send(-1); END IF;
		b := get_byte(state, pos);
		x := b & 127;
		pos := pos + 1;
		IF b >= 128 THEN
			FOR digit IN 1..8 LOOP
				IF pos >= size THEN RETURN int8send(-1); END IF;
				b := get_byte(state, pos);
				x := x + ((b & 127)::bigint << 7 * digit);
				pos := pos + 1;
				EXIT WHEN b < 128;
			END LOOP;
			IF b = 0 THEN RETURN int8send(-1); END IF;
			IF b >= 128 OR sum + x >= exact THEN RETURN int8send(-2); END IF;
		END IF;
		sum := sum + x;
		IF i + age <= slots THEN
			recent := recent + x;
		ELSIF i + age = slots + 1 THEN
			leaving := x;
		END IF;
		IF x > 0 AND i + age <= slots + 1 THEN
			past := pos;
			last := i;
		END IF;
		IF i = 1 AND age = 0 THEN
			newest := x;
			old := pos;
		END IF;
		IF op = 1 THEN
			counts[i] := x;
		END IF;
	END LOOP;
	IF pos <> size OR x = 0 THEN RETURN int8send(-1); END IF;
	IF sum >= exact THEN RETURN int8send(-2); END IF;

	IF op = 1 THEN -- refund
		IF last = 0 THEN RETURN int8send(1) || int8send(0) || state; END IF;
		IF cost >= recent + leaving THEN RETURN int8send(1); END IF;
		first := 0;
		FOR i IN 1..last LOOP
			back := least(cost, counts[i]);
			counts[i] := counts[i] - back;
			cost := cost - back;
			IF first = 0 AND counts[i] > 0 THEN
				first := i + age;
			END IF;
		END LOOP;
		head := array_fill(0::bigint, ARRAY[age]) || counts[1:last];
	ELSE
		IF op = 0 THEN -- allow
			IF args[4] = 1 OR leaving = 0 THEN
				share := leaving;
			ELSIF leaving < 9223372036854775807 / slot - 1 THEN
				share := (leaving * (slot - passed) + slot - 1) / slot;
			ELSE
				share := div(leaving::numeric * (slot - passed) + slot - 1, slot);
			END IF;
			available := args[1] - recent - share;
			IF available < cost THEN RETURN int8send(0) || int8send(0) || state; END IF;
			times := least(times, available / cost);
			cost := cost * times;
		END IF;
		IF recent + leaving + cost >= exact THEN RETURN int8send(-2); END IF;
		head := ARRAY[newest + cost];
		IF last > 0 THEN
			tail := decode(repeat('00', age - 1), 'hex') || substring(state FROM old + 1 FOR past - old);
		END IF;
	END IF;

	next := decode('6d01', 'hex') || int8send(at) || int8send(slot);
	FOREACH x IN ARRAY (CASE WHEN last > 0 THEN last + age ELSE 1 END)::bigint || head LOOP
		WHILE x >= 128 LOOP
			next := next || set_byte(decode('00', 'hex'), 0, (x & 127 | 128)::int);
			x := x >> 7;
		END LOOP;
		next := next || set_byte(decode('00', 'hex'), 0, x::int);
	END LOOP;
	RETURN int8send(times) || int8send(skew + (slots + 2 - first) * slot - passed) || next || tail;
END
