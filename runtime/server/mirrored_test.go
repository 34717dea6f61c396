package server_test

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// mirrored are pods with mirrors, by their own UIDs.
type mirrored struct {
	pods
	uids map[types.UID]types.UID
}

func (m mirrored) MirrorUID(pod *corev1.Pod) types.UID { return m.uids[pod.UID] }

func TestAPodIsFoundByTheUIDOfItsMirror(t *testing.T) {
	for _, tt := range []struct {
		name    string
		mirrors map[types.UID]types.UID
		uid     string
		want    int
	}{
		{name: "its own", mirrors: map[types.UID]types.UID{uid: "m"}, uid: uid, want: http.StatusOK},
		{name: "its mirror's", mirrors: map[types.UID]types.UID{uid: "m"}, uid: "m", want: http.StatusOK},
		{name: "another's", mirrors: map[types.UID]types.UID{uid: "m"}, uid: "n", want: http.StatusNotFound},
		{name: "no mirror", uid: "m", want: http.StatusNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, runtimetest.Config{Exec: func(context.Context, runtimetest.Exec) runtimetest.ExecResult {
				return runtimetest.ExecResult{}
			}})
			a := n.serve(t, func(cfg *server.Config) { cfg.Pods = mirrored{cfg.Pods.(pods), tt.mirrors} })
			if resp, body := a.do(http.MethodPost, "/run/default/web/"+tt.uid+"/app?cmd=id", nil); resp.StatusCode != tt.want {
				t.Errorf("answer is %s %q, want %d", resp.Status, body, tt.want)
			}
		})
	}
}
