package registryauth

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// FromSecrets returns a keyring of image pull secrets, those of type
// kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg. Others hold no
// credentials for registries and are an error, as are secrets and entries that cannot
// be read; what is good is on the keyring all the same.
func FromSecrets(secrets []*corev1.Secret) (*Keyring, error) {
	keyring := &Keyring{}
	var errs []error
	for _, s := range secrets {
		auths, err := parseSecret(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err))
		}
		keyring.Add(auths, Source{Secret: &ObjectRef{UID: s.UID, Namespace: s.Namespace, Name: s.Name}})
	}
	return keyring, errors.Join(errs...)
}

func parseSecret(s *corev1.Secret) (Auths, error) {
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		return parseKey(s, corev1.DockerConfigJsonKey, ParseConfig)
	case corev1.SecretTypeDockercfg:
		return parseKey(s, corev1.DockerConfigKey, ParseLegacyConfig)
	default:
		return nil, fmt.Errorf("type %q is neither %s nor %s", s.Type, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
}

func parseKey(s *corev1.Secret, key string, parse func([]byte) (Auths, error)) (Auths, error) {
	data := s.Data[key]
	if len(data) == 0 {
		return nil, fmt.Errorf("key %q is missing or empty", key)
	}
	return parse(data)
}
