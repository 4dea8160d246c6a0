-- read decodes a program that AppendArgs in program.go encoded. It returns its arguments, with the function as the
-- field run, and the position after it. The arguments of a stack are the programs of its parts.
local function read(s, from)
  local name, n, format, args
  name, n, format, from = unpack('>I2c0I2I2c0', s, from)
  if name == 'all' then
    args = {}
    for i = 1, n do args[i], from = read(s, from) end
  else
    args = { unpack(format, s, from) }
    from = args[n + 1]
  end
  args.run = programs[name]
  return args, from
end
