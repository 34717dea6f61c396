package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// What follows fits our kubelet to the suite: it takes fewer flags than upstream's, and
// shows its pods on a unix socket instead of the read-only port. Each part goes when
// the kubelet has what it replaces.

// flagsScript runs our kubelet, whose path is in the file ours, without the flags that
// it does not take, or with its own name for them. What is left out is in the
// configuration as well.
const flagsScript = `#!/bin/sh
state=$(dirname "$(readlink -f "$0")")
left=$#
while [ "$left" -gt 0 ]; do
	flag=$1
	shift
	left=$((left - 1))
	case $flag in
	--runtime-cgroups=*) ;;
	--image-service-endpoint | --feature-gates)
		shift
		left=$((left - 1))
		;;
	--v)
		set -- "$@" "--log-level=$1"
		shift
		left=$((left - 1))
		;;
	*) set -- "$@" "$flag" ;;
	esac
done
exec "$(cat "$state/ours")" "$@"
`

// adaptFlags writes the script to dir and returns its path.
func adaptFlags(dir, kubelet string) (string, error) {
	script := filepath.Join(dir, "adapted")
	return script, errors.Join(
		os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "ours"), []byte(kubelet), 0o644),
		os.WriteFile(script, []byte(flagsScript), 0o755),
	)
}

// readOnlyPort is the kubelet's, by https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/.
const readOnlyPort = "127.0.0.1:10255"

// podsServer passes requests for pods from the read-only port to our kubelet's socket.
type podsServer struct {
	server *http.Server
	served chan error
}

func servePods(ctx context.Context, listen func(ctx context.Context, network, address string) (net.Listener, error), socket string) (*podsServer, error) {
	listener, err := listen(ctx, "tcp", readOnlyPort)
	if err != nil {
		return nil, fmt.Errorf("serve our kubelet's pods: %w", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "kubelet"})
	proxy.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	mux := http.NewServeMux()
	mux.Handle("GET /pods", proxy)
	p := &podsServer{server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, served: make(chan error, 1)}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

func (p *podsServer) close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
