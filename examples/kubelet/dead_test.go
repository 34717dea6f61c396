package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/podworker/podsync"
)

func TestDeadContainerFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want podsync.Limits
	}{
		{name: "defaults", want: podsync.Limits{DeadPerContainer: 1}},
		{name: "all are kept", args: []string{"--maximum-dead-containers-per-container=-1"}, want: podsync.Limits{DeadPerContainer: math.MaxInt32}},
		{name: "none beyond need", args: []string{"--maximum-dead-containers=0", "--maximum-dead-containers-per-container=0"}, want: podsync.Limits{DeadPerContainer: 1, Dead: -1}},
		{
			name: "numbers", args: []string{"--maximum-dead-containers=50", "--maximum-dead-containers-per-container=2", "--minimum-container-ttl-duration=1m"},
			want: podsync.Limits{DeadPerContainer: 2, Dead: 50, DeadAge: time.Minute},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d dead
			f := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
			d.add(f)
			if err := f.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, d.limits()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
