-- The program of a stack. It runs the programs of its parts, like stack.lua.
--
-- args has the count of parts, and then for each part the ID of its program, the count of its
-- arguments, and the arguments.
DECLARE
	n       CONSTANT int := args[1];
	size    CONSTANT int := length(state);
	pos     int := least(2, size); -- the position in state
	b       int;
	bytes   int;      -- the length of a part's state
	framed  bool := false;
	parts   bytea[];
	begin_  int := 2; -- where a part begins in args
	begins  int[];
	r       record;
	counts  bigint[];
	nexts   bytea[];
	ttls    bigint[];
	least   bigint := times;
	next    bytea := decode('6101', 'hex');
BEGIN
	IF size > 0 AND (size < 2 OR get_byte(state, 0) <> 97 OR get_byte(state, 1) <> 1) THEN times := -1; RETURN; END IF;
	FOR i IN 1..n LOOP
		bytes := 0;
		FOR digit IN 0..3 LOOP
			EXIT WHEN size = 0;
			IF pos >= size THEN times := -1; RETURN; END IF;
			b := get_byte(state, pos);
			pos := pos + 1;
			IF b = 0 AND digit > 0 OR b >= 128 AND digit = 3 THEN times := -1; RETURN; END IF;
			bytes := bytes + ((b & 127) << 7 * digit);
			EXIT WHEN b < 128;
		END LOOP;
		IF bytes > size - pos THEN times := -1; RETURN; END IF;
		parts[i] := substring(state FROM pos + 1 FOR bytes);
		pos := pos + bytes;
		framed := framed OR bytes > 0;
	END LOOP;
	IF size > 0 AND (NOT framed OR pos <> size) THEN times := -1; RETURN; END IF;

	FOR i IN 1..n LOOP
		begins[i] := begin_;
		r := STEP(args[begin_], op, parts[i], now, cost, times, args[begin_ + 2:begin_ + 1 + args[begin_ + 1]]);
		counts[i] := r.times;
		nexts[i] := r.state;
		ttls[i] := r.ttl;
		least := least(least, counts[i]);
		IF least < 0 THEN times := least; RETURN; END IF;
		begin_ := begin_ + 2 + args[begin_ + 1];
	END LOOP;
	times := least;
	IF least = 0 THEN RETURN; END IF;

	-- If one part allows fewer requests than the others, the others decide again with that number.
	FOR i IN 1..n LOOP
		IF counts[i] > least THEN
			begin_ := begins[i];
			r := STEP(args[begin_], op, parts[i], now, cost, least, args[begin_ + 2:begin_ + 1 + args[begin_ + 1]]);
			nexts[i] := r.state;
			ttls[i] := r.ttl;
		END IF;
		ttl := greatest(ttl, ttls[i]);
		bytes := length(nexts[i]);
		WHILE bytes >= 128 LOOP
			next := next || set_byte(decode('00', 'hex'), 0, bytes & 127 | 128);
			bytes := bytes >> 7;
		END LOOP;
		next := next || set_byte(decode('00', 'hex'), 0, bytes) || nexts[i];
	END LOOP;
	state := CASE WHEN ttl > 0 OR next = state THEN next ELSE '' END; -- without a TTL, no part has units in use
END
