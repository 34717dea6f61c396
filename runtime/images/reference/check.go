package reference

import (
	"errors"
	"fmt"
	"strings"
)

// digestLength returns, for the algorithms that runtimes know, the number of
// hexadecimal digits of a digest, and 0 for others
// (https://github.com/opencontainers/image-spec/blob/main/descriptor.md#registered-algorithms).
func digestLength(algorithm string) int {
	switch algorithm {
	case "sha256":
		return 64
	case "sha384":
		return 96
	case "sha512":
		return 128
	default:
		return 0
	}
}

func checkDigest(digest string) error {
	algorithm, sum, _ := strings.Cut(digest, ":")
	want := digestLength(algorithm)
	switch {
	case want == 0:
		return errors.New("the digest is not of sha256, sha384 or sha512")
	case len(sum) != want || !isHex(sum):
		return fmt.Errorf("the digest has not %d lower-case hexadecimal digits", want)
	}
	return nil
}

func checkTag(tag string) error {
	if tag == "" || len(tag) > maxTag {
		return fmt.Errorf("the tag has not 1 to %d characters", maxTag)
	}
	for i, c := range []byte(tag) {
		if !isAlnum(c) && c != '_' && (i == 0 || (c != '.' && c != '-')) {
			return errors.New("the tag has other characters than letters, digits, _ and, after the first, . and -")
		}
	}
	return nil
}

// checkRegistry wants a host name, an IPv4 address or an IPv6 address in brackets,
// with or without port.
func checkRegistry(registry string) error {
	host := registry
	if i := strings.LastIndexByte(registry, ':'); i > strings.LastIndexByte(registry, ']') {
		port := registry[i+1:]
		host = registry[:i]
		if port == "" || strings.Trim(port, "0123456789") != "" {
			return errors.New("the port of the registry is not a number")
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || inner == "" || strings.Trim(inner, "0123456789abcdefABCDEF:") != "" {
			return errors.New("the registry is not an IPv6 address in brackets")
		}
		return nil
	}
	for part := range strings.SplitSeq(host, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return errors.New("the registry has a part that is empty or begins or ends with -")
		}
		for _, c := range []byte(part) {
			if !isAlnum(c) && c != '-' {
				return errors.New("the registry is not a host name")
			}
		}
	}
	return nil
}

// checkPath wants parts of lower-case letters and digits, joined inside a part by one
// dot, by one or two underscores, or by dashes.
func checkPath(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			return errors.New("a part of the path is empty")
		}
		if !isPathChar(part[0]) || !isPathChar(part[len(part)-1]) {
			return errors.New("a part of the path begins or ends with something else than a lower-case letter or digit")
		}
		start := 0
		for i, c := range []byte(part) {
			if !isPathChar(c) {
				continue
			}
			if !isJoint(part[start:i]) {
				return errors.New("the path has other characters than lower-case letters and digits, joined by ., _, __ or -")
			}
			start = i + 1
		}
	}
	return nil
}

// isJoint reports whether text may stand between two letters or digits of a path.
func isJoint(text string) bool {
	switch text {
	case "", ".", "_", "__":
		return true
	}
	return strings.Trim(text, "-") == ""
}

func isPathChar(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isAlnum(c byte) bool { return isPathChar(c) || 'A' <= c && c <= 'Z' }

// isHex reports whether text is lower-case hexadecimal digits only.
func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }
