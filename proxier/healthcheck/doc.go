// Package healthcheck serves the health of a service proxy over HTTP, in the shape
// of kube-proxy's port 10256: load balancers ask /healthz whether to send the node
// traffic, and a liveness probe asks /livez whether the proxy works.
//
// NodePorts does the same for a Service: it answers at healthCheckNodePort whether
// this node has ready endpoints of it.
//
// It is not for the health of endpoints themselves.
//
//	s, err := healthcheck.New("0.0.0.0:10256", healthcheck.Config{Status: p.Status})
//	...
//	err = s.Run(ctx)
//
// Server, its handler and NodePorts are safe for concurrent use. No privilege is needed for
// ports from 1024 on.
package healthcheck
