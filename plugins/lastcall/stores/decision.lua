-- One decision, or one settlement, in one trip: versions are compared, what was taken is given back,
-- claims are granted together or not at all, records are written. The counters' arithmetic is the twin of
-- tallies.py, and a test compares the two.
--
-- KEYS: a hash for each shard. ARGV[1], as msgpack: now, token, shards, writes, claims, otherwise,
-- releases, again. A hash holds `#version` (who wrote its records last), `#until` and a field a record.

local request = cmsgpack.unpack(ARGV[1])
local now, token, shards = request[1], request[2], request[3]
local writes, claims, otherwise, releases, again =
  request[4], request[5], request[6], request[7], request[8]

local GRANTED, REFUSED, STALE, TOO_MUCH, UNREADABLE = 1, 0, -1, -2, -3
local WHOLE = 256 -- fields up to which a stale reader is given the whole hash
local RENEW = 0.75
local VERSION = '1 '

local clock = redis.call('TIME')
local function answer(code, ...)
  return {code, tonumber(clock[1]), tonumber(clock[2]), ...}
end

-- What is over is gone before anything is read.
local untils, stale, done = {}, {}, false
for i, key in ipairs(KEYS) do
  local meta = redis.call('HMGET', key, '#version', '#until')
  if meta[2] and tonumber(meta[2]) <= now then
    redis.call('DEL', key)
    meta = {false, false}
  end
  untils[i] = meta[2]
  local version, expected, assumed = meta[1] or '', shards[i][1], shards[i][4]
  local differs = expected and version ~= expected and not (again and version == token)
  if expected and version == expected and #assumed > 0 then
    -- The client knows a part of a large shard, and takes these for absent.
    for _, value in ipairs(redis.call('HMGET', key, unpack(assumed))) do
      differs = differs or value ~= false
    end
  end
  if differs then
    local wanted, fields = shards[i][3], {}
    local whole = redis.call('HLEN', key) <= WHOLE
    if whole then
      fields = redis.call('HGETALL', key)
    elseif #wanted > 0 then
      for j, value in ipairs(redis.call('HMGET', key, unpack(wanted))) do
        if value then
          fields[#fields + 1] = wanted[j]
          fields[#fields + 1] = value
        end
      end
    end
    stale[#stale + 1] = {i - 1, version, whole and 1 or 0, fields}
  elseif again and version == token then
    done = true -- the first sending of this very decision arrived
  end
end
if #stale > 0 then
  return answer(STALE, unpack(stale))
end

-- Counters, read once and kept here until everything is known.
local held, changed, unreadable = {}, {}, false
local function name(shard, field)
  return shard .. '\n' .. field
end
local function read(shard, field)
  local at = name(shard, field)
  if held[at] == nil then
    local value = redis.call('HGET', KEYS[shard], field)
    held[at] = false
    if value then
      local ok, plain = pcall(cjson.decode, string.sub(value, #VERSION + 1))
      if string.sub(value, 1, #VERSION) ~= VERSION or not ok or type(plain) ~= 'table' then
        unreadable = unreadable or {shard - 1, field}
      else
        held[at] = plain
      end
    end
  end
  return held[at]
end
local function hold(shard, field, value)
  local at = name(shard, field)
  held[at] = value
  changed[at] = {shard, field}
end

-- Python's floor division of floats, to the last bit.
local function number(window, time)
  if not window then
    return 0
  end
  local rest = math.fmod(time, window)
  local whole = (time - rest) / window
  if rest < 0 then
    whole = whole - 1
  end
  local floor = math.floor(whole)
  if whole - floor > 0.5 then
    floor = floor + 1
  end
  return floor
end
-- No window goes back: a worker whose clock is behind counts in the one that is held.
local function window_of(kept, window, offset)
  local here = number(window, now + offset)
  if kept and kept[1] > here then
    return kept[1]
  end
  return here
end
local function count_of(kept, window, offset)
  local here = window_of(kept, window, offset)
  if kept and kept[1] == here then
    return kept[2], here
  end
  return 0, here
end
local function holders(kept)
  local living = {}
  for who, till in pairs(kept or {}) do
    if tonumber(till) > now then
      living[who] = till
    end
  end
  return living
end

-- First what goes back, unless it is more than was taken.
for index, each in ipairs(done and {} or releases) do
  local shard, field, kind = each[1] + 1, each[2], each[3]
  local kept = read(shard, field)
  if unreadable then
    return answer(UNREADABLE, unreadable[1], unreadable[2])
  end
  if kind == 'free' then
    local living = holders(kept)
    living[each[4]] = nil
    hold(shard, field, living)
  else
    local amount, window, taken_at, offset = each[4], each[5], each[6], each[7]
    local count, here = count_of(kept, window, offset)
    if number(window, taken_at + offset) == here then
      if amount > count then
        return answer(TOO_MUCH, index - 1, count)
      end
      hold(shard, field, {here, count - amount})
    end
  end
end

-- Then what is claimed: all of it, or nothing.
local observed, totals, refused = {}, {}, false
for index, each in ipairs(claims) do
  local shard, field, kind = each[1] + 1, each[2], each[3]
  local kept = read(shard, field)
  if unreadable then
    return answer(UNREADABLE, unreadable[1], unreadable[2])
  end
  if kind == 'take' then
    observed[index] = (count_of(kept, each[6], each[7]))
  else
    local others = 0
    for who in pairs(holders(kept)) do
      if who ~= each[4] then
        others = others + 1
      end
    end
    observed[index] = others
  end
end
local after = {}
if done then
  after = observed
else
  for index, each in ipairs(claims) do
    local at = name(each[1] + 1, each[2])
    local total = (totals[at] or observed[index]) + (each[3] == 'take' and each[4] or 1)
    if each[5] and total > each[5] then
      refused = index
      break
    end
    totals[at] = total
    after[index] = total
  end
end

-- What is to be set goes out together at the end: one command a shard.
local fields = {}
local function set(shard, field, value)
  local list = fields[shard]
  if not list then
    list = {}
    fields[shard] = list
  end
  if value then
    list[#list + 1] = field
    list[#list + 1] = value
  else
    redis.call('HDEL', KEYS[shard], field)
  end
end
local function write(list)
  local versioned = {}
  for _, each in ipairs(list) do
    local shard = each[1] + 1
    set(shard, each[2], each[3])
    versioned[shard] = true
  end
  for shard in pairs(versioned) do
    set(shard, '#version', token)
  end
end
local function flush()
  for shard, list in pairs(fields) do
    local life, till = shards[shard][2], untils[shard]
    local expires = life > 0 and (not till or tonumber(till) < now + RENEW * life)
    if expires then
      list[#list + 1] = '#until'
      list[#list + 1] = string.format('%.17g', now + life)
    end
    if #list > 0 then
      redis.call('HSET', KEYS[shard], unpack(list))
    end
    if expires then
      redis.call('PEXPIRE', KEYS[shard], math.ceil(life * 1000))
    end
  end
end

if refused then
  local instead = otherwise and otherwise[refused]
  if instead then
    write(instead)
    flush()
  end
  return answer(REFUSED, refused - 1, instead and 1 or 0, unpack(observed))
end
if done then
  return answer(GRANTED, unpack(after))
end

for index, each in ipairs(claims) do
  local shard, field, kind = each[1] + 1, each[2], each[3]
  if kind == 'take' then
    hold(shard, field, {window_of(read(shard, field), each[6], each[7]), after[index]})
  else
    local living = holders(read(shard, field))
    living[each[4]] = string.format('%.17g', now + each[6])
    hold(shard, field, living)
  end
end

write(writes)
for at, place in pairs(changed) do
  local value = held[at]
  if value[1] then
    value = VERSION .. string.format('[%.0f,%.0f]', value[1], value[2])
  elseif next(value) then
    value = VERSION .. cjson.encode(value)
  else
    value = false
  end
  set(place[1], place[2], value)
end
flush()
return answer(GRANTED, unpack(after))
