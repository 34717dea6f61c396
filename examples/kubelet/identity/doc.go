// Package identity gets the certificates of a kubelet signed by its cluster and renews
// them: the one by which it is known to the API server, and the one by which it is known
// to those who ask its own API. The work is done by client-go's package
// util/certificate; here is what a kubelet makes of it: the kubeconfig that a bootstrap
// leaves, connections that end with the certificate they were opened with, the names in a
// serving certificate, and a certificate of its own making where nobody signs.
//
//	id, err := identity.Open(identity.Config{Kubeconfig: kubeconfig, Bootstrap: bootstrap, Dir: "/var/lib/kubelet/pki", Node: "node-a"})
//	if err != nil {
//		return err
//	}
//	config, err := id.Config(nil) // for client-go
//	go id.Run(ctx)                // an error says that only a new start can help
//
// All of it is safe for use by several goroutines. The files are root's.
package identity
