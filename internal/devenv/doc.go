// Package devenv gives a Postgres and a Kubernetes API to development, to
// demonstrations and to tests, on a machine that may have neither.
//
// What the environment names is used as it is; else what is installed; else
// what can be fetched or built. Nothing that was started outlives the process
// that started it, however that process ends.
//
// A test package asks with [TestPostgres], [TestPooler] and [TestKubernetes] and
// ends with [RunTests]. The command in the folder run starts both once for all packages
// of one `go test`.
package devenv
