package doctor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// lookAtKubelet asks the kubelet itself how it is.
func lookAtKubelet(ctx context.Context, n *Node, r *report) {
	if *n.Kubelet.HealthzPort == 0 {
		r.skip("healthzPort is 0: nobody can ask it")
		return
	}
	host := n.Kubelet.HealthzBindAddress
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(int(*n.Kubelet.HealthzPort))) + "/healthz"
	status, body, err := get(ctx, url)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		r.problem("start it, or see why it does not start: systemctl status kubelet, journalctl -u kubelet -n 50", "nothing answers at %s: the kubelet does not run", url)
	case err != nil:
		r.problem("see what the kubelet does: journalctl -u kubelet -n 50", "%s", err)
	case status != http.StatusOK:
		r.problem("see to what it names: journalctl -u kubelet -n 50", "%s answers %d: %s", url, status, strings.TrimSpace(body))
	default:
		r.ok("%s says %s", url, oneLine(body))
	}
}

// get asks once; the answer is bounded.
func get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, string(data), err
}
