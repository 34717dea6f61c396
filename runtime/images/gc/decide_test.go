package gc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// ago is a time some minutes before noon.
func ago(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }

func TestDecide(t *testing.T) {
	old := func(id string, size uint64, used int) Image {
		return Image{ID: id, Size: size, FirstSeen: ago(1000), LastUsed: ago(used)}
	}
	abc := []Image{old("a", 10, 30), old("b", 10, 20), old("c", 10, 10)}
	with := func(images []Image, more ...Image) []Image { return append(slices.Clone(images), more...) }
	week := Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute, MaxAge: time.Hour}
	for _, c := range []struct {
		name   string
		images []Image
		// available of 100 bytes.
		available uint64
		policy    Policy
		// started is minutes ago.
		started int
		want    string
	}{
		{name: "room", images: abc, available: 16, policy: DefaultPolicy(), want: "free 0 bytes"},
		{name: "at the threshold", images: abc, available: 15, policy: DefaultPolicy(), want: "free 5 bytes\nremove a of 10 bytes for space"},
		{name: "used longest ago first", images: []Image{abc[2], abc[1], abc[0]}, available: 8, policy: DefaultPolicy(), want: "free 12 bytes\nremove a of 10 bytes for space\nremove b of 10 bytes for space"},
		{name: "never used before all others", images: with(abc, Image{ID: "d", Size: 10, FirstSeen: ago(5)}), available: 15, policy: DefaultPolicy(), want: "free 5 bytes\nremove d of 10 bytes for space"},
		{name: "seen first among equals", images: []Image{{ID: "a", Size: 10, FirstSeen: ago(5)}, {ID: "b", Size: 10, FirstSeen: ago(6)}}, available: 15, policy: DefaultPolicy(), want: "free 5 bytes\nremove b of 10 bytes for space"},
		{name: "not enough", images: abc[:1], available: 0, policy: DefaultPolicy(), want: "free 20 bytes, 10 of which nothing can free\nremove a of 10 bytes for space"},
		{name: "kept", images: []Image{{ID: "a", Size: 10, Kept: true}, abc[1]}, available: 15, policy: DefaultPolicy(), want: "free 5 bytes\nremove b of 10 bytes for space"},
		{name: "new", images: []Image{{ID: "a", Size: 10, FirstSeen: ago(1)}, abc[1]}, available: 15, policy: DefaultPolicy(), want: "free 5 bytes\nremove b of 10 bytes for space"},
		{name: "used now", images: []Image{{ID: "a", Size: 10, LastUsed: noon}}, available: 15, policy: DefaultPolicy(), want: "free 5 bytes, 5 of which nothing can free"},
		{name: "no image", available: 0, policy: DefaultPolicy(), want: "free 20 bytes, 20 of which nothing can free"},
		{name: "old", images: with(abc, old("d", 1, 61)), available: 50, policy: week, started: 100, want: "free 0 bytes\nremove d of 1 bytes for age"},
		{name: "old, but we only started", images: with(abc, old("d", 1, 61)), available: 50, policy: week, started: 60, want: "free 0 bytes"},
		{name: "exactly the age", images: []Image{old("d", 1, 60)}, available: 50, policy: week, started: 100, want: "free 0 bytes"},
		{name: "never used and new", images: []Image{{ID: "d", Size: 1, FirstSeen: ago(5)}}, available: 50, policy: week, started: 100, want: "free 0 bytes"},
		{name: "never used and old", images: []Image{{ID: "d", Size: 1, FirstSeen: ago(61)}}, available: 50, policy: week, started: 100, want: "free 0 bytes\nremove d of 1 bytes for age"},
		{name: "age counts for space", images: with(abc, old("d", 5, 61)), available: 15, policy: week, started: 100, want: "free 5 bytes\nremove d of 5 bytes for age"},
		{name: "age and space", images: with(abc, old("d", 1, 61)), available: 15, policy: week, started: 100, want: "free 5 bytes\nremove d of 1 bytes for age\nremove a of 10 bytes for space"},
		{name: "off", images: abc, available: 1, policy: Policy{HighPercent: 100, LowPercent: 100}, want: "free 0 bytes"},
		{name: "off on a full disk", images: abc, available: 0, policy: Policy{HighPercent: 100, LowPercent: 80}, want: "free 0 bytes"},
		{name: "off but for age", images: with(abc, old("d", 1, 61)), available: 0, policy: Policy{HighPercent: 100, LowPercent: 80, MaxAge: time.Hour}, started: 100, want: "free 0 bytes\nremove d of 1 bytes for age"},
		{name: "always", images: abc, available: 100, policy: Policy{}, want: "free 0 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(c.images, Usage{Capacity: 100, Available: c.available}, c.policy, Times{Now: noon, Started: ago(c.started)})
			if diff := cmp.Diff(c.want, d.String()); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPercent(t *testing.T) {
	const huge = math.MaxUint64
	for _, c := range []struct {
		u    Usage
		want int
	}{
		{Usage{100, 100}, 0},
		{Usage{100, 0}, 100},
		{Usage{1000, 151}, 85},
		{Usage{1000, 150}, 85},
		{Usage{1000, 159}, 85},
		{Usage{1000, 160}, 84},
		{Usage{10, 20}, 0},
		{Usage{0, 0}, 100},
		{Usage{huge, huge}, 0},
		{Usage{huge, huge / 2}, 50},
		{Usage{huge, 0}, 100},
	} {
		if got := c.u.Percent(); got != c.want {
			t.Errorf("%+v is %d%% used, want %d%%", c.u, got, c.want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, c := range []struct {
		u    Usage
		low  int
		want uint64
	}{
		{Usage{250, 0}, 80, 50},
		{Usage{250, 20}, 80, 30},
		{Usage{250, 60}, 80, 0},
		{Usage{7, 0}, 0, 7},
		{Usage{math.MaxUint64, 0}, 0, math.MaxUint64},
	} {
		d := Decide(nil, c.u, Policy{LowPercent: c.low}, Times{})
		if d.Target != c.want || d.Short != c.want {
			t.Errorf("of %+v down to %d%%, %d bytes have to go, want %d", c.u, c.low, d.Target, c.want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for size, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB", 2 << 40: "2.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := formatSize(size); got != want {
			t.Errorf("%d is %q, want %q", size, got, want)
		}
	}
}

// Whatever the images are: nothing that must stay goes, nothing goes twice, nothing goes
// before what was used longer ago, and no more than is needed goes for space; and if the
// target is missed there is nothing left that could go.
func TestDecisionsOnRandomImages(t *testing.T) {
	image := rapid.Custom(func(rt *rapid.T) Image {
		i := Image{Size: rapid.Uint64Range(0, 40).Draw(rt, "size"), Kept: rapid.IntRange(0, 3).Draw(rt, "kept") == 0, FirstSeen: ago(rapid.IntRange(0, 100).Draw(rt, "seen"))}
		if rapid.Bool().Draw(rt, "ever") {
			i.LastUsed = ago(rapid.IntRange(0, 100).Draw(rt, "used"))
		}
		return i
	})
	rapid.Check(t, func(rt *rapid.T) {
		images := rapid.SliceOfN(image, 0, 12).Draw(rt, "images")
		for i := range images {
			images[i].ID = fmt.Sprint("i", i)
		}
		p := Policy{
			LowPercent: rapid.IntRange(0, 100).Draw(rt, "low"), MinAge: time.Duration(rapid.IntRange(0, 10).Draw(rt, "min")) * time.Minute,
			MaxAge: rapid.SampledFrom([]time.Duration{0, 30 * time.Minute}).Draw(rt, "max"),
		}
		p.HighPercent = rapid.IntRange(p.LowPercent, 100).Draw(rt, "high")
		u := Usage{Capacity: 200, Available: rapid.Uint64Range(0, 200).Draw(rt, "available")}
		times := Times{Now: noon, Started: ago(rapid.IntRange(0, 100).Draw(rt, "started"))}
		d := Decide(images, u, p, times)
		checkDecision(rt, images, p, times, d)
		if (d.Target > 0) != (p.HighPercent < 100 && u.Percent() >= p.HighPercent && u.Available < u.Capacity*uint64(100-p.LowPercent)/100) {
			rt.Errorf("target is %d at %d%%", d.Target, u.Percent())
		}
	})
}

func checkDecision(rt *rapid.T, images []Image, p Policy, times Times, d Decision) {
	gone := map[string]bool{}
	var brought, last uint64
	for n, r := range d.Removals {
		i := r.Image
		if gone[i.ID] || i.Kept || noon.Sub(i.FirstSeen) < p.MinAge || i.LastUsed.Equal(noon) {
			rt.Errorf("%+v goes", i)
		}
		gone[i.ID] = true
		if r.Reason == Age && (p.MaxAge == 0 || noon.Sub(i.touched()) <= p.MaxAge || noon.Sub(times.Started) <= p.MaxAge) {
			rt.Errorf("%+v goes for its age", i)
		}
		if n > 0 && d.Removals[n-1].Reason == r.Reason && i.LastUsed.Before(d.Removals[n-1].Image.LastUsed) {
			rt.Errorf("%s goes after %s", i.ID, d.Removals[n-1].Image.ID)
		}
		brought += i.Size
		if r.Reason == Space {
			last = i.Size
			if brought-last >= d.Target {
				rt.Errorf("%s goes although %d of %d bytes are freed", i.ID, brought-last, d.Target)
			}
		}
	}
	if want := d.Target - min(brought, d.Target); d.Short != want {
		rt.Errorf("short of %d bytes, want %d", d.Short, want)
	}
	for _, i := range images {
		if d.Short > 0 && !gone[i.ID] && !i.Kept && noon.Sub(i.FirstSeen) >= p.MinAge && i.LastUsed.Before(noon) {
			rt.Errorf("%s stays although bytes are missing", i.ID)
		}
	}
}

func TestBadPolicies(t *testing.T) {
	for _, p := range []Policy{
		{HighPercent: 101}, {LowPercent: -1, HighPercent: 5}, {LowPercent: 6, HighPercent: 5}, {MinAge: -1}, {MaxAge: -1}, {MinAge: 2, MaxAge: 1},
	} {
		if err := p.validate(); err == nil || !strings.Contains(err.Error(), "Policy.") {
			t.Errorf("error of %+v is %v, want one that names the field", p, err)
		}
	}
}
