// Package record shows what the programs of a node ask of the API server and of the
// container runtime: proxies stand before each, pass everything on unchanged, and
// note which kinds of calls they saw.
//
//	var log record.Log
//	api, err := record.NewAPI(kubeconfig, record.APIConfig{Log: &log})
//	go api.Serve(listener)
//	os.WriteFile(file, api.Kubeconfig(listener.Addr()), 0o600) // for the program
//
// Tests compare the notes with golden lists, which are therefore the permissions
// that the programs need, and no more. The package is for this repository and not
// API. It needs no privilege; everything may be used by several goroutines.
package record
