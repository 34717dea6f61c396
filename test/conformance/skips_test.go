package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExcusesNeedProof(t *testing.T) {
	skips := []Skip{{Pattern: `^dummy`, Reason: "no dummy device"}}
	specs := []string{"dummy device", "other"}
	for _, test := range []struct {
		name    string
		stock   Runs
		want    []string
		excused []Result
		err     string
	}{
		{
			name: "stock fails it", stock: runsOf("stock", "dummy device failed", "dummy device failed"), want: []string{"other"},
			excused: []Result{{Spec: "dummy device", State: Skipped, Message: "host: no dummy device"}},
		},
		{name: "stock passes it", stock: runsOf("stock", "dummy device passed"), err: "the stock binaries pass it"},
		{name: "stock has passed it once", stock: runsOf("stock", "dummy device passed", "dummy device failed"), err: "the stock binaries pass it"},
		{name: "nothing is known of stock", err: "run the set with the stock binaries first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run, excused, err := Excuses(specs, skips, test.stock)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, run); diff != "" {
				t.Errorf("to run (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.excused, excused); diff != "" {
				t.Errorf("excused (-want +got):\n%s", diff)
			}
		})
	}
	for _, skip := range Skips() {
		if _, _, err := skipFor("spec", []Skip{skip}); err != nil || skip.Reason == "" {
			t.Errorf("skip %+v: %v", skip, err)
		}
	}
}
