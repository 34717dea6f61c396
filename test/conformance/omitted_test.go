package conformance

import (
	"slices"
	"testing"
)

func TestWhatIsOmittedIsInNoSet(t *testing.T) {
	for _, omission := range Omissions() {
		if omission.Reason == "" || len(omission.Specs) == 0 || !slices.IsSorted(omission.Specs) {
			t.Errorf("%+v: want specs in their order, and a reason", omission)
		}
		for _, set := range Sets() {
			if set.Suite != omission.Suite {
				continue
			}
			if in, err := set.Select(omission.Specs); err != nil || len(in) > 0 {
				t.Errorf("the set %s has %q, %v", set.Name, in, err)
			}
		}
	}
}
