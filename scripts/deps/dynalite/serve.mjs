// Runs dynalite in memory on a free port of the loopback until its standard input
// is closed. Its first line is the port.
import { createRequire } from 'node:module'

const dynalite = createRequire(process.argv[2] + '/')('dynalite')
const server = dynalite({ createTableMs: 20, deleteTableMs: 20, updateTableMs: 20 })
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
// It throws when a client gives a request up, which clients of a busy machine do.
process.on('uncaughtException', (error) => {
  if (error.code !== 'ECONNRESET') throw error
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
