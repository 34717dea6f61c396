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

func TestParseTakesTheSocketOfARuntime(t *testing.T) {
	const socket = "/run/crio/crio.sock"
	o, err := parse([]string{"--set=node-conformance", "--runtime=" + socket}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.kit.Runtime != socket {
		t.Errorf("runtime %q, want %q", o.kit.Runtime, socket)
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ flags, want string }{
		{"--set=nowhere", "--set"},
		{"--kubelet=mine", "--kubelet=mine"},
		{"--proxy=none", "--proxy=none"},
		{"--backend=ipvs", "--backend=ipvs"},
		{"--runtime=docker", "--runtime=docker"},
		{"--runtime=/run/crio/crio.sock --record", "recorded"},
		{"--set=standalone --runtime=/run/crio/crio.sock", "the set standalone"},
		{"--fresh --resume", "begins anew or goes on"},
		{"--output=xml", "--output=xml"},
		{"more", `"more"`},
		{"--colour", "colour"},
	} {
		t.Run(test.flags, func(t *testing.T) {
			_, err := parse(strings.Fields(test.flags), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
