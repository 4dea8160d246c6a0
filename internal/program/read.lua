-- read decodes a program that AppendArgs in program.go encoded. It returns the program and the position
-- after it.
local function read(s, from)
  local name, n, args = nil, nil, nil
  name, n, from = unpack('>I2c0I2', s, from)
  if name ~= 'all' then
    args = { unpack('>' .. string.rep('i8', n), s, from) }
    return { run = programs[name], args = args }, args[n + 1]
  end
  args = {}
  for i = 1, n do args[i], from = read(s, from) end
  return { run = programs.all, args = args }, from
end
