package probes_test

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

// timeWaits counts the sockets in TIME_WAIT that a server's address leaves on
// either side.
func timeWaits(t *testing.T, addr string) int {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	_, port := probestest.HostPort(t, addr)
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(table)) {
		// sl local_address rem_address st: 06 is TIME_WAIT (include/net/tcp_states.h).
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[3] == "06" && strings.Contains(line, fmt.Sprintf(":%04X ", number)) {
			count++
		}
	}
	return count
}

func TestNoTimeWaitIsLeft(t *testing.T) {
	web := httptest.NewServer(probestest.Replies{"/": {Body: "ok"}})
	defer web.Close()
	// A server that closes in the same moment as the probe may leave a socket behind;
	// this one takes its time.
	over := make(chan struct{})
	open := probestest.Raw(t, func(net.Conn) { <-over })
	defer close(over)
	tests := []struct {
		name, addr string
		prober     probes.Prober
	}{
		{"http", web.URL, probes.HTTP{URL: web.URL + "/"}},
		{"tcp", open, probes.TCP{Addr: open}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const attempts = 100
			for range attempts {
				if res, err := tt.prober.Probe(within(t, long)); err != nil || res.Outcome != probes.Success {
					t.Fatalf("%v, %v", res, err)
				}
			}
			if got := timeWaits(t, tt.addr); got > attempts/5 {
				t.Errorf("%d attempts left %d sockets in TIME_WAIT", attempts, got)
			}
		})
	}
}
