// Package certs keeps what a TLS server needs of files: its certificate and key, and the
// authorities whose client certificates count. Files that change are read anew without a
// restart; what was read last stays in force while the new content is broken.
//
// It is not for getting certificates from somebody, nor for renewing them, and it never
// verifies a client: [Server] asks clients for certificates and leaves the judgement to
// who serves the request, as package auth does.
//
//	pair, err := certs.OpenPair("kubelet.crt", "kubelet.key", log)
//	if err != nil {
//		return err
//	}
//	authorities, err := certs.OpenPool("ca.crt", log)
//	if err != nil {
//		return err
//	}
//	config := certs.Server(certs.Config{Certificate: pair.Certificate, ClientCAs: authorities.Current})
//	err = (&http.Server{TLSConfig: config}).Serve(tls.NewListener(l, config))
//
// There is no goroutine: files are looked at when somebody asks, at most once a second.
// Everything is safe for use by several goroutines. The files of private keys are
// usually root's; nothing else needs privileges.
package certs
