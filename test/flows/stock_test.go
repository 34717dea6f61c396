package flows

import (
	"os"
	"testing"

	"github.com/nodekit-go/nodekit/proxier/proxiertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// The table says what kube-proxy does: in each of its modes it passes, too. The older
// one of them is tried with NODEKIT_LONG=1 only: it takes as long as the other.
func TestKernelStockKubeProxy(t *testing.T) {
	testnode.NeedTools(t)
	binary, err := testnode.ToolOf(t.Context(), "kube-proxy", "test/tools/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "iptables" && os.Getenv("NODEKIT_LONG") != "1" {
				t.Skip("NODEKIT_LONG=1 is not set")
			}
			proxiertest.RunProxy(t, func(tb testing.TB, w *proxiertest.World) proxiertest.Proxy {
				tb.Helper()
				return start(tb, w, binary, mode)
			})
		})
	}
}
