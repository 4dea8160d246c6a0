// The tests promise that windows begin and end with the dates of a zone, whatever its clocks do, and that results are exact.
package calendar_test

import (
	"archive/zip"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/algo"
	"github.com/sluice-go/sluice/calendar"
	"github.com/sluice-go/sluice/compose"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/internal/testing/sample"
	"github.com/sluice-go/sluice/internal/testing/tracetest"
)

var units = []calendar.Unit{calendar.Day, calendar.Week, calendar.Month, calendar.Year}

func zone(t testing.TB, name string) *time.Location {
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// endOf returns the end of the window that contains t.
func endOf(t time.Time, o calendar.Options) time.Time {
	o.Count, o.Cost = 1, 1
	_, r := calendar.Step(calendar.State{}, t, o)
	return t.Add(r.ResetAfter)
}

// zones returns the names of all zones of the tz database.
func zones(t *testing.T) (names []string) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	require.NoError(t, err)
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			names = append(names, f.Name)
		}
	}
	require.Greater(t, len(names), 400)
	return names
}

// dateOf returns the date of t as midnight in UTC.
func dateOf(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// firstInstant finds by trial the first minute whose date in the zone is that of midnight, in UTC, or later.
func firstInstant(midnight time.Time, z *time.Location) time.Time {
	for t := midnight.Add(-27 * time.Hour).In(z); ; t = t.Add(time.Minute) {
		if !dateOf(t).Before(midnight) {
			return t
		}
	}
}

// windowEnd returns the end of the window that contains t. It can be after the next date, if an hour around midnight is repeated.
func windowEnd(t time.Time, u calendar.Unit, z *time.Location) time.Time {
	for date := dateOf(t); ; {
		switch u {
		case calendar.Day:
			date = date.AddDate(0, 0, 1)
		case calendar.Week:
			date = date.AddDate(0, 0, 1+(7-int(date.Weekday()))%7)
		case calendar.Month:
			date = date.AddDate(0, 1, 1-date.Day())
		case calendar.Year:
			date = time.Date(date.Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC)
		}
		if end := firstInstant(date, z); t.Before(end) {
			return end
		}
	}
}

func TestWindowsEndWithTheFirstInstantOfADateInEveryZone(t *testing.T) {
	random := sample.New(1, 12)
	for _, name := range zones(t) {
		z := zone(t, name)
		var instants []time.Time
		for range 3 {
			instants = append(instants, time.Unix(random.Int64N(4e9), 0))
		}
		for at := time.Unix(random.Int64N(2e9), 0).In(z); len(instants) < 12; { // around changes of the clocks
			_, to := at.ZoneBounds()
			if to.IsZero() || to.Year() > 2100 {
				break
			}
			instants = append(instants, to.Add(-25*time.Hour), to.Add(-time.Minute), to.Add(40*time.Minute))
			if at = to.Add(time.Minute); at.Year() > 2100 {
				break
			}
		}
		for _, at := range instants {
			at = at.In(z)
			if _, offset := at.Zone(); offset%60 != 0 || random.IntN(3) > 0 && sample.Brief() {
				continue
			}
			u := units[random.IntN(len(units))]
			end := endOf(at, calendar.Options{Unit: u, Zone: z}).In(z)
			want := windowEnd(at, u, z)
			require.Equal(t, want.Unix(), end.Unix(), "%s, %v of %v: %v, want %v", name, u, at, end, want)
		}
	}
}

// At 00:01 it is 23:01 again, with the date of the day before. But the new day has begun.
func TestDayDoesNotBeginTwice(t *testing.T) {
	z := zone(t, "America/St_Johns")
	again := time.Date(2010, 11, 7, 3, 0, 0, 0, time.UTC).In(z)
	require.Equal(t, "2010-11-06 23:30:00", again.Format(time.DateTime))
	require.Equal(t, time.Date(2010, 11, 8, 0, 0, 0, 0, z), endOf(again, calendar.Options{Unit: calendar.Day, Zone: z}).In(z))
}

// RetryAfter is exact, and no window has more than Count, in random histories.
func TestNoWindowHasMoreThanCount(t *testing.T) {
	random := sample.New(2, 12)
	names := zones(t)
	for range 300 {
		o := calendar.Options{Count: random.UpTo(20), Unit: units[random.IntN(len(units))], Zone: zone(t, names[random.IntN(len(names))])}
		p, err := calendar.New(o)
		require.NoError(t, err)
		at := time.UnixMicro(random.Int64N(algo.MaxInstant / 2))
		used := map[int64]int64{} // by the end of the window
		var state []byte
		var first time.Time
		total := int64(0)
		for range 60 {
			cost := random.UpTo(o.Count)
			next, r, err := p.Step(nil, state, at, cost)
			require.NoError(t, err)
			require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
			if end := endOf(at, o); r.Allowed {
				used[end.UnixMicro()] += cost
				require.LessOrEqual(t, used[end.UnixMicro()], o.Count)
				if total += cost; first.IsZero() {
					first = at
				}
				require.LessOrEqual(t, total, p.Bound(at.Sub(first)+1))
				require.Equal(t, end.Sub(at), r.ResetAfter)
			} else {
				require.Equal(t, end.Sub(at), r.RetryAfter)
				early, err := p.Peek(state, at.Add(r.RetryAfter-time.Microsecond), cost)
				require.NoError(t, err)
				require.False(t, early.Allowed)
				inTime, err := p.Peek(state, at.Add(r.RetryAfter), cost)
				require.NoError(t, err)
				require.True(t, inTime.Allowed)
			}
			state = next
			at = at.Add(time.Duration(random.Int64N(int64(p.Limit().Period / 3))))
		}
	}
}

// A caller that takes all units at the last instant of a window, and all at the first of the next, reaches the bound.
func TestBoundIsReached(t *testing.T) {
	for _, u := range units {
		p, err := calendar.New(calendar.Options{Count: 10, Unit: u, Zone: zone(t, "Europe/Berlin")})
		require.NoError(t, err)
		require.EqualValues(t, 10, p.Bound(1))
		require.EqualValues(t, 20, p.Bound(2), "two instants can be in different microseconds")
		require.Zero(t, p.Bound(0))
		require.Positive(t, p.Bound(math.MaxInt64))
	}
	february := calendar.Options{Count: 10, Unit: calendar.Month}
	p, err := calendar.New(february)
	require.NoError(t, err)
	month := 28 * 24 * time.Hour
	require.EqualValues(t, 20, p.Bound(month+1))
	require.EqualValues(t, 30, p.Bound(month+2), "the end of January, February, and the begin of March")
	require.EqualValues(t, 140, p.Bound(365*24*time.Hour+time.Hour))
}

func TestOperations(t *testing.T) {
	o := calendar.Options{Count: 10, Unit: calendar.Day, Cost: 4}
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s, r := calendar.Step(calendar.State{}, noon, o)
	require.True(t, r.Fresh)
	s, _ = calendar.Charge(s, noon, o)
	s, r = calendar.Charge(s, noon, o)
	require.EqualValues(t, -2, r.Remaining, "a debt")
	s, r = calendar.Refund(s, noon, o)
	require.EqualValues(t, 2, r.Remaining)
	require.EqualValues(t, -4, r.Paid)
	require.False(t, calendar.Peek(s, noon, o).Allowed)

	behind, r := calendar.Step(s, noon.Add(-24*time.Hour), calendar.Options{Count: 10, Unit: calendar.Day, Cost: 2})
	require.True(t, r.Allowed, "the clock is behind, and 2 are left in the window of the state")
	require.Equal(t, 24*time.Hour, r.Skew)
	require.Equal(t, s.Start, behind.Start)

	month := calendar.Options{Count: 10, Unit: calendar.Month, Cost: 3}
	require.False(t, calendar.Peek(s, noon.Add(time.Hour), month).Allowed, "after a change of the unit, units stay in use")
	require.True(t, calendar.Peek(s, noon.Add(12*time.Hour), o).Allowed)
	require.False(t, calendar.Peek(s, noon.Add(12*time.Hour), month).Allowed)

	empty, _ := calendar.Refund(s, noon, calendar.Options{Count: 10, Unit: calendar.Day, Cost: 100})
	require.Zero(t, empty)
	_, r = calendar.Step(s, noon, calendar.Options{Count: 10, Unit: calendar.Day, Cost: 11})
	require.Equal(t, algo.Never, r.RetryAfter)
	next, r := calendar.Step(s, noon, calendar.Options{})
	require.Equal(t, algo.Result{Cost: 1, RetryAfter: algo.Never}, r)
	require.Equal(t, s, next)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for text, o := range map[string]calendar.Options{
		"calendar: Count must be from 1 to 2^40 (1099511627776), got 0":                                 {Unit: calendar.Day},
		"calendar: Count must be from 1 to 2^40 (1099511627776), got 1099511627777":                     {Count: algo.MaxCount + 1, Unit: calendar.Day},
		"calendar: Unit must be Day, Week, Month or Year, got 0":                                        {Count: 1},
		"calendar: Unit must be Day, Week, Month or Year, got 5":                                        {Count: 1, Unit: 5},
		"calendar: Cost is -1: algo: cost must be at least 1":                                           {Count: 1, Unit: calendar.Day, Cost: -1},
		"calendar: Cost must be 0 or 1 for a Policy, got 2; pass the cost to the methods of the Policy": {Count: 1, Unit: calendar.Day, Cost: 2},
	} {
		_, err := calendar.New(o)
		require.EqualError(t, err, text)
	}
	for _, machine := range []*time.Location{time.Local, time.FixedZone("localtime", 0)} {
		_, err := calendar.New(calendar.Options{Count: 1, Unit: calendar.Day, Zone: machine})
		require.EqualError(t, err, "calendar: Zone must not be that of the machine, which can differ between processes; name the zone, such as Europe/Berlin")
	}
	for _, other := range []*time.Location{
		time.FixedZone("", 3600), time.FixedZone("a b", 3600), time.FixedZone("UTC", 3600), time.FixedZone("Europe/Berlin", 3600),
		time.FixedZone("Local", 0), time.FixedZone("../Berlin", 3600),
	} {
		_, err := calendar.New(calendar.Options{Count: 1, Unit: calendar.Day, Zone: other})
		require.EqualError(t, err, fmt.Sprintf("calendar: Zone must be a zone that time.LoadLocation returns, such as Europe/Berlin, got one that only has the name %q, with other offsets", other))
	}
	r, err := calendar.Policy{}.Peek(nil, time.Unix(0, 0), 1)
	require.NoError(t, err)
	require.Equal(t, algo.Never, r.RetryAfter)
	require.Zero(t, calendar.Policy{}.Bound(time.Hour))
	require.Zero(t, calendar.Policy{}.Limit())
	_, _, err = calendar.Policy{}.Step(nil, nil, time.Unix(0, 0), 0)
	require.ErrorIs(t, err, algo.ErrCost)
	require.Equal(t, "Unit(7)", calendar.Unit(7).String())
}

func TestSpecs(t *testing.T) {
	for _, spec := range []string{"calendar 5/day", "calendar 20/week tz=America/New_York", "calendar 10000/month tz=Europe/Berlin", "calendar 1/year"} {
		p, err := compose.ParsePolicy(spec)
		require.NoError(t, err)
		require.Equal(t, spec, p.String())
		require.Equal(t, "calendar", compose.Kind(p))
		require.Equal(t, p.Limit().Count, p.(calendar.Policy).Options().Count)
	}
}

// A policy with a zone that only has the offsets of one in the tz database has the same spec, so it must be the same policy.
func TestSpecTellsZonesApart(t *testing.T) {
	for name, z := range map[string]*time.Location{
		"calendar 5/day":               time.FixedZone("UTC", 0),
		"calendar 5/day tz=Etc/GMT-14": time.FixedZone("Etc/GMT-14", 14*3600),
	} {
		p, err := calendar.New(calendar.Options{Count: 5, Unit: calendar.Day, Zone: z})
		require.NoError(t, err)
		require.Equal(t, name, p.String())
		again, err := compose.ParsePolicy(name)
		require.NoError(t, err)
		require.Equal(t, name, again.String())
	}
	for _, name := range zones(t) {
		_, err := calendar.New(calendar.Options{Count: 5, Unit: calendar.Day, Zone: zone(t, name)})
		require.NoError(t, err, name)
	}
}

func TestTraces(t *testing.T) { tracetest.Run(t, "testdata/*.trace") }

func FuzzStep(f *testing.F) {
	f.Add(int64(10), 1, int64(3), int64(946684801), []byte("f\x01\x03\x5d\x01\x3b\x4a\xb6\x87\x00\x00\x00\x00\x00\x00\x00\x07"), 0)
	f.Add(int64(10), 3, int64(3), int64(math.MaxInt64), []byte("f\x01\x0f\xff\xff\xff\xff\xff\xff\x00\x0f\xff\xff\xff\xff\xff\xff"), 2)
	apia := zone(f, "Pacific/Apia")
	f.Fuzz(func(t *testing.T, count int64, unit int, cost, sec int64, state []byte, op int) {
		p, err := calendar.New(calendar.Options{Count: count, Unit: calendar.Unit(unit), Zone: apia})
		if err != nil || op < 0 {
			return
		}
		now := time.Unix(sec, 0)
		next, r, err := policy.Ops[op%4].Apply(p, nil, state, now, cost)
		if err != nil {
			return
		}
		require.Equal(t, r.Remaining, r.Available+r.Refilled-r.Paid)
		require.GreaterOrEqual(t, min(r.RetryAfter, r.NextRefill, r.ResetAfter, r.Skew), time.Duration(0))
		again, err := p.Peek(next, now, 1)
		require.NoError(t, err)
		require.Equal(t, r.Remaining, again.Remaining)
	})
}
