package run

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// TestTimeIsToldWhileTheSuiteRuns: what a kill would leave in the journal after a while, and
// what an end does.
func TestTimeIsToldWhileTheSuiteRuns(t *testing.T) {
	for _, test := range []struct {
		name         string
		after        time.Duration
		killed, want conformance.Stretch
	}{
		{"nothing yet", 20 * time.Second, conformance.Stretch{}, conformance.Stretch{Wall: 20 * time.Second, Load: 2, Procs: 6}},
		{
			"some minutes", 3*time.Minute + 10*time.Second,
			conformance.Stretch{Wall: 3 * time.Minute, Load: 2, Procs: 6},
			conformance.Stretch{Wall: 3*time.Minute + 10*time.Second, Load: 2, Procs: 6},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := testRunner(t, &fakeSuite{}, conformance.Ours, "a")
				stop := clock{procs: 6, add: r.journal.AddStretch, load: func() (float64, bool) { return 2, true }}.start(t.Context())
				time.Sleep(test.after)
				synctest.Wait()
				past, err := conformance.ReadJournal(r.journalPath())
				if err != nil || past.Stretch != test.killed {
					t.Errorf("after a kill the journal tells %+v, %v, want %+v", past.Stretch, err, test.killed)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := r.journal.Past().Stretch; got != test.want {
					t.Errorf("after its end it tells %+v, want %+v", got, test.want)
				}
			})
		})
	}
}

func TestClockTellsWhatWentWrong(t *testing.T) {
	full := errors.New("the disk is full")
	c := clock{add: func(conformance.Stretch) error { return full }, load: loadAverage}
	if err := c.start(t.Context())(); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

func TestLoadIsKnown(t *testing.T) {
	load, ok := loadAverage()
	if !ok {
		t.Skip("the kernel tells of no load")
	}
	if load < 0 {
		t.Errorf("load %v", load)
	}
}
