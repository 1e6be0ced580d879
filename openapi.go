package berth

import _ "embed"

// OpenAPI is openapi.yaml as it stands beside the module's go.mod: the contract
// that the server and the client are generated from and that the server serves.
//
//go:embed openapi.yaml
var OpenAPI []byte
