package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostOf(t *testing.T) {
	for _, test := range []struct {
		name     string
		versions []string
		want     Host
	}{
		{"nothing is told", nil, Host{}},
		{
			"the distribution's runtime",
			[]string{"kubernetes v1.37.2", "kernel 6.18.44-fc-v657", "nodekit d438911", "containerd 1.6.20~ds1"},
			Host{Kubernetes: "v1.37.2", Kernel: "6.18", Runtime: "containerd 1.6"},
		},
		{
			"a current one",
			[]string{"kubernetes v1.37.2", "kernel 6.18.44-fc-v657", "containerd v2.4.2+unknown"},
			Host{Kubernetes: "v1.37.2", Kernel: "6.18", Runtime: "containerd 2.4"},
		},
		{"a version without numbers", []string{"containerd devel"}, Host{Runtime: "containerd devel"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := HostOf(test.versions); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRunsCountOnAHostThatIsAlike(t *testing.T) {
	runs := runsOf("stock", "a passed", "a passed", "a passed", "a passed")
	runs[0].Versions = []string{"kubernetes v1.37.2", "kernel 6.18.1", "containerd 1.6.20"}
	runs[1].Versions = []string{"kubernetes v1.37.2", "kernel 6.1.9", "containerd 1.6.20"}
	runs[2].Versions = []string{"kubernetes v1.37.2", "kernel 6.18.2", "containerd 1.7.1"}
	runs[3].Versions = []string{"kubernetes v1.37.1", "kernel 6.18.2", "containerd 1.6.21"}
	here := HostOf([]string{"kubernetes v1.37.2", "kernel 6.18.3", "containerd 1.6.21"})
	for _, test := range []struct {
		name string
		host Host
		on   int
		want []string
	}{
		{"this host", here, 1, []string{"kernel 6.1, not 6.18", "containerd 1.7, not containerd 1.6", "kubernetes v1.37.1, not v1.37.2"}},
		{"whatever the runtime", Host{Kubernetes: here.Kubernetes, Kernel: here.Kernel}, 2, []string{"kernel 6.1, not 6.18", "kubernetes v1.37.1, not v1.37.2"}},
		{"nothing is known", Host{}, 4, nil},
		{"another one", Host{Kernel: "5.10"}, 0, []string{"kernel 6.18, not 5.10", "kernel 6.1, not 5.10"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			on, apart := runs.On(test.host)
			if len(on) != test.on {
				t.Errorf("%d runs count, want %d", len(on), test.on)
			}
			if diff := cmp.Diff(test.want, apart); diff != "" {
				t.Errorf("why others do not (-want +got):\n%s", diff)
			}
		})
	}
}
