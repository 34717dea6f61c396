package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"--set", "network", "--proxy", "ours", "--backend", "iptables", "--runtime", "containerd2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := conformance.Kit{Kubelet: conformance.Stock, Proxy: conformance.Ours, Backend: "iptables", Runtime: "containerd2"}
	if diff := cmp.Diff(want, o.kit); diff != "" {
		t.Errorf("kit (-want +got):\n%s", diff)
	}
	if o.set.Name != "network" {
		t.Errorf("set %q, want network", o.set.Name)
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"--set=nowhere", "--set"},
		{"--kubelet=mine", "--kubelet=mine"},
		{"--proxy=none", "--proxy=none"},
		{"--backend=ipvs", "--backend=ipvs"},
		{"--runtime=/run/crio/crio.sock", "--runtime=/run/crio/crio.sock"},
		{"--output=xml", "--output=xml"},
		{"more", `"more"`},
		{"--colour", "colour"},
	} {
		t.Run(test.flag, func(t *testing.T) {
			_, err := parse([]string{test.flag}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
