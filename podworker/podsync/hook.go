package podsync

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// hook runs the lifecycle handlers of one container
// (https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/).
type hook struct {
	syncer *Syncer
	pod    *corev1.Pod
	// container is its name, id the runtime's id for it.
	container, id string
	// ip is the address of the pod.
	ip    string
	ports []corev1.ContainerPort
	// ended is closed when the container is seen to have ended; nil: nobody looks.
	ended <-chan struct{}
}

// run carries a handler out and returns when it has ended or ctx has.
func (h *hook) run(ctx context.Context, handler *corev1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		_, _, err := h.syncer.runtime.ExecSync(ctx, h.id, handler.Exec.Command, 0)
		return err
	case handler.HTTPGet != nil:
		return h.get(ctx, handler.HTTPGet)
	case handler.Sleep != nil:
		return h.sleep(ctx, period(handler.Sleep.Seconds))
	case handler.TCPSocket != nil:
		return errors.New("tcpSocket is not a handler of hooks")
	}
	return errors.New("the hook has no handler")
}

// sleep waits for a time, or until there is nothing left to wait for: the end of the
// container.
func (h *hook) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-h.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// userAgent is what servers see of hooks: the kubelet's name for them, with the release
// whose behaviour this is.
const userAgent = "kube-lifecycle/1.37"

// get sends the request of a hook. Any answer is good. A server that turns out to speak
// no TLS is asked again without, as the kubelet does, then without credentials.
func (h *hook) get(ctx context.Context, action *corev1.HTTPGetAction) error {
	req, err := h.request(ctx, action)
	if err != nil {
		return err
	}
	client := h.client(action.Host)
	resp, err := client.Do(req)
	if errors.Is(err, http.ErrSchemeMismatch) {
		req.URL.Scheme = "http"
		req.Header.Del("Authorization")
		if plain, failed := client.Do(req); failed == nil {
			h.syncer.warning(h.pod, "", "LifecycleHTTPFallback",
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
			resp, err = plain, nil
		}
	}
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// client returns who sends the request of a hook to a host that it names, empty: to the pod
// itself.
func (h *hook) client(host string) Doer {
	if host != "" && h.syncer.elsewhere != nil {
		return h.syncer.elsewhere
	}
	return h.syncer.cfg.Parts.HTTP
}

func (h *hook) request(ctx context.Context, action *corev1.HTTPGetAction) (*http.Request, error) {
	host := action.Host
	if host == "" {
		host = h.ip
	}
	if host == "" {
		return nil, errors.New("the pod has no address to send the request of the hook to")
	}
	port, err := h.port(action.Port)
	if err != nil {
		return nil, err
	}
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	target, err := url.Parse(action.Path)
	if err != nil { // a path that is none is sent as one that was meant as text
		target = &url.URL{Path: action.Path}
	}
	target.Scheme, target.Host = scheme, net.JoinHostPort(host, port)
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "*/*")
	for _, header := range action.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			req.Host = header.Value
			continue
		}
		req.Header.Set(header.Name, header.Value)
	}
	return req, nil
}

// port returns the number of a port that may be given by its name.
func (h *hook) port(p intstr.IntOrString) (string, error) {
	if p.Type == intstr.Int {
		return strconv.Itoa(p.IntValue()), nil
	}
	for i := range h.ports {
		if h.ports[i].Name == p.StrVal {
			return strconv.Itoa(int(h.ports[i].ContainerPort)), nil
		}
	}
	if _, err := strconv.ParseUint(p.StrVal, 10, 16); err != nil {
		return "", fmt.Errorf("container %s has no port %q", h.container, p.StrVal)
	}
	return p.StrVal, nil
}

// hookClient is the client of HTTP hooks: certificates are not checked, and nothing is
// followed to another host. Only addresses that reach lets be connected to are, nil: all.
func hookClient(reach func(netip.Addr) error) *http.Client {
	d := &net.Dialer{}
	if reach != nil {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if err := reach(to.Addr().Unmap().WithZone("")); err != nil {
				return fmt.Errorf("hooks may not connect to this address: %w", err)
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       d.DialContext,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // pods sign their own certificates
			DisableKeepAlives: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			const most = 10
			if len(via) >= most || req.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// address returns the address at which the hooks of a pod reach it, empty if it has
// none.
func (s *Syncer) address(pod *corev1.Pod, seen *podstatus.Observed) string {
	node := s.node()
	ips := node.IPs
	if !pod.Spec.HostNetwork {
		sandbox := seen.ReadySandbox()
		if sandbox == nil {
			return ""
		}
		ips = podstatus.SortIPs(sandbox.IPs, node.IPs)
	}
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}
