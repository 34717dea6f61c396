package conformance

import (
	"testing"
	"time"
)

func TestTiming(t *testing.T) {
	run := func(hour int, load float64, procs int, text string, seconds ...int) Record {
		r := runsOf("kit", text)[0]
		r.Date, r.Load, r.Procs = time.Unix(int64(hour)*3600, 0), load, procs
		for i, s := range seconds {
			r.Results[i].Time = time.Duration(s) * time.Second
		}
		return r
	}
	elsewhere := run(3, 8, 6, "a passed", 100)
	elsewhere.Versions = []string{"kernel 5.10.1"}
	both := run(1, 10, 6, "a passed, b passed", 10, 20)
	for _, test := range []struct {
		name        string
		ours, stock Runs
		want        Timing // Its runs are left out.
		ratio       float64
	}{
		{"nothing is recorded", nil, Runs{both}, Timing{}, 0},
		{"all that passed in both", Runs{run(1, 9, 6, "a passed, b passed", 5, 10)}, Runs{both}, Timing{Specs: 2, OursTook: 15 * time.Second, StockTook: 30 * time.Second}, 0.5},
		{
			"what one of them left out or failed is in neither sum",
			Runs{run(1, 9, 6, "a passed, b skipped, c passed, d passed", 5, 0, 7, 8)},
			Runs{run(1, 9, 6, "a passed, b passed, c failed", 10, 300, 300)},
			Timing{Specs: 1, OursTook: 5 * time.Second, StockTook: 10 * time.Second},
			0.5,
		},
		{
			"the newest under the same conditions",
			Runs{run(1, 15, 6, "a passed", 1), run(2, 14, 6, "a passed", 2), run(3, 16, 6, "a passed", 3)},
			Runs{run(1, 10, 6, "a passed", 4), run(2, 10, 6, "a passed", 8), run(3, 50, 6, "a passed", 16)},
			Timing{Specs: 1, OursTook: 2 * time.Second, StockTook: 8 * time.Second},
			0.25,
		},
		{"another load", Runs{run(1, 16, 6, "a passed", 1)}, Runs{both}, Timing{}, 0},
		{"a load that is not known", Runs{run(1, 0, 6, "a passed", 1)}, Runs{both}, Timing{}, 0},
		{"more specs at a time", Runs{run(1, 10, 8, "a passed", 1)}, Runs{both}, Timing{}, 0},
		{"not known how many at a time", Runs{run(1, 10, 0, "a passed", 5)}, Runs{both}, Timing{Specs: 1, OursTook: 5 * time.Second, StockTook: 10 * time.Second}, 0.5},
		{"another host", Runs{run(1, 10, 6, "a passed", 1)}, Runs{elsewhere}, Timing{}, 0},
		{"nothing passed in both", Runs{run(1, 10, 6, "a failed", 1)}, Runs{both}, Timing{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Comparison{Ours: test.ours, Stock: test.stock}.Timing()
			if ratio := got.Ratio(); ratio != test.ratio {
				t.Errorf("ratio %v, want %v", ratio, test.ratio)
			}
			if got.Specs != test.want.Specs || got.OursTook != test.want.OursTook || got.StockTook != test.want.StockTook {
				t.Errorf("got %d specs, %s and %s, want %+v", got.Specs, got.OursTook, got.StockTook, test.want)
			}
		})
	}
}
