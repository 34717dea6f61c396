package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

func TestInUserNamespace(t *testing.T) {
	off := map[string]bool{GateUserNamespace: false}
	for _, tt := range []struct {
		name  string
		text  string // of the file; "": there is none
		gates map[string]bool
		want  *bool
	}{
		{name: "the machine's own", text: "         0          0 4294967295\n", want: new(false)},
		{name: "of a user", text: "         0       1000          1\n         1     100000      65536\n", want: new(true)},
		{name: "that has all but one user", text: "0 0 4294967294\n", want: new(true)},
		{name: "a kernel without", want: new(false)},
		{name: "switched off", text: "0 1000 1\n", gates: off},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "uid_map")
			if tt.text != "" {
				if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := inUserNamespace(&kubeletconfig.KubeletConfiguration{FeatureGates: tt.gates}, path)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("in a user namespace (-want +got):\n%s", diff)
			}
		})
	}
}
