-- read decodes a program that AppendArgs in program.go encoded. It returns the program and the position
-- after it.
local function read(s, from)
  local name, n, args = nil, nil, {}
  name, n, from = unpack('>I2c0I2', s, from)
  for i = 1, n do
    if name == 'all' then args[i], from = read(s, from) else args[i], from = unpack('>i8', s, from) end
  end
  return { run = programs[name], args = args }, from
end
