// Package registryauth finds the credentials for an image among those that a node has:
// image pull secrets of a pod, Docker configuration files, and credential-provider
// plugins (credentialprovider.kubelet.k8s.io), by the rules of the kubelet.
//
// It talks to no registry: whether a credential is any good turns out in the pull.
// It fetches no secrets and makes no tokens either; both are handed in.
//
//	keyring, err := registryauth.FromSecrets(secrets)
//	if err != nil {
//		log.Warn("some pull secrets are unusable", "err", err)
//	}
//	for _, c := range keyring.Lookup("registry.example/team/web") {
//		// try c.Username and c.Password
//	}
//
// Files reads configuration files of the node and Providers runs plugins. Both are
// safe for use by many goroutines; a Keyring is once nobody adds to it any more.
//
// Credentials are never part of an error or of what a Credential prints. Plugins run
// with the privileges and the environment of the process.
package registryauth
