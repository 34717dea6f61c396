package flows

import (
	"testing"

	"github.com/nodekit-go/nodekit/proxier/proxiertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// The table says what kube-proxy does: in each of its modes it passes, too.
func TestKernelStockKubeProxy(t *testing.T) {
	testnode.NeedTools(t)
	binary, err := testnode.ToolOf(t.Context(), "kube-proxy", "test/tools/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			proxiertest.RunProxy(t, func(tb testing.TB, w *proxiertest.World) proxiertest.Proxy {
				tb.Helper()
				return start(tb, w, binary, mode)
			})
		})
	}
}
