//! The command line of `tidegate load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::units;

const EXAMPLES: &str = "\
Examples:
  tidegate load -c 64 -d 30s http://localhost:8080/          64 connections for 30 seconds, as wrk
  tidegate load -c 10 -n 1000 http://localhost:8080/         1000 requests, as ab -k
  tidegate load -c 64 --rate 5k http://localhost:8080/       5000 requests a second, whatever the server does
  tidegate load -m POST -p order.json -T application/json http://localhost:8080/orders
  tidegate load 9=http://localhost/ 1=http://localhost/search?q=x
  tidegate load -s script.lua http://localhost:8080/ -- argument
  tidegate load --json http://localhost/ > a.json;  tidegate load --compare a.json b.json

A time is 500ms, 10s, 2m or 1h, and seconds without a unit; a number is 1000, 10k or 1M.
Interrupted (Ctrl-C), the run ends and reports what there is.
For those who come from ab: -c, -n, -m, -p, -T, -H, -A and -C are ab's; connections are kept open unless --no-keep-alive is given,
-d is ab's -t, and --timeout its -s. From wrk: -c, -d, -t, -s, -H, --latency and --timeout are wrk's.
The exit status is 0 when a response came and no request failed, statuses of 400 and above included; else 1, and 2 for a wrong command.";

/// Load an HTTP server and measure how it answers
#[derive(Parser, Debug)]
#[command(name = "tidegate load", version, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// What to request. Several are requested in turns, WEIGHT times each; http://unix:/path/of/socket:/uri is a Unix socket
    #[arg(value_name = "[WEIGHT=]URL")]
    pub(crate) urls: Vec<String>,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,

    /// Connections, each with one request at a time
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = units::count, help_heading = "Load")]
    pub(crate) connections: u64,
    /// How long [default: 10s, unless -n is given]
    #[arg(short, long, value_name = "TIME", value_parser = units::span, help_heading = "Load")]
    pub(crate) duration: Option<Duration>,
    /// How many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = units::count, help_heading = "Load")]
    pub(crate) requests: Option<u64>,
    /// Threads that the connections are spread over
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = units::count, help_heading = "Load")]
    pub(crate) threads: u64,
    /// Requests a second, begun at even distances. A latency counts from when its request was due, not from when a connection
    /// was free to send it [default: each connection sends as soon as it has its response]
    #[arg(short = 'R', long, value_name = "N", value_parser = units::rate, help_heading = "Load")]
    pub(crate) rate: Option<f64>,
    /// Load for so long before anything is counted
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::time, help_heading = "Load")]
    pub(crate) warm_up: Duration,
    /// A request without its whole response after this time has failed
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::span, help_heading = "Load")]
    pub(crate) timeout: Duration,

    /// Method of the requests [default: GET, or POST with a body]
    #[arg(short, long, value_name = "METHOD", help_heading = "Requests")]
    pub(crate) method: Option<String>,
    /// A header field, e.g. "Accept-Encoding: gzip"; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = "Requests")]
    pub(crate) headers: Vec<String>,
    /// Body of the requests
    #[arg(short, long, value_name = "TEXT", help_heading = "Requests")]
    pub(crate) body: Option<String>,
    /// Body of the requests, from a file; - is standard input
    #[arg(short = 'p', long, value_name = "FILE", conflicts_with = "body", help_heading = "Requests")]
    pub(crate) body_file: Option<PathBuf>,
    /// Type of the body [default with a body: application/x-www-form-urlencoded]
    #[arg(short = 'T', long, value_name = "TYPE", help_heading = "Requests")]
    pub(crate) content_type: Option<String>,
    /// User and password of Basic authentication, with a colon between
    #[arg(short = 'A', long, value_name = "USER:PASSWORD", help_heading = "Requests")]
    pub(crate) auth: Option<String>,
    /// A cookie, e.g. "session=1"; may be given several times
    #[arg(short = 'C', long = "cookie", value_name = "COOKIE", help_heading = "Requests")]
    pub(crate) cookies: Vec<String>,
    /// More URLs, one a line, as on the command line
    #[arg(long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) urls_file: Option<PathBuf>,
    /// A script in Lua, as wrk runs it: setup, init, delay, request, response, done
    #[arg(short, long, value_name = "FILE", help_heading = "Requests")]
    pub(crate) script: Option<PathBuf>,

    /// Keep connections open, which is the default
    #[arg(short, long, help_heading = "Connections")]
    pub(crate) keep_alive: bool,
    /// A new connection for each request; its latency counts from the beginning of the connection
    #[arg(long, conflicts_with_all = ["keep_alive", "http2"], help_heading = "Connections")]
    pub(crate) no_keep_alive: bool,
    /// Connect to a Unix socket; the URL says the host and the rest
    #[arg(long, value_name = "SOCKET", help_heading = "Connections")]
    pub(crate) unix: Option<PathBuf>,
    /// Speak HTTP/2; without TLS the server has to expect it
    #[arg(long, help_heading = "Connections")]
    pub(crate) http2: bool,
    /// Requests at a time on each HTTP/2 connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::count, requires = "http2", help_heading = "Connections")]
    pub(crate) streams: u64,
    /// Verify the server's certificate by the authorities that the system trusts
    #[arg(long, help_heading = "Connections")]
    pub(crate) verify: bool,
    /// Verify it by the authorities in this file
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    pub(crate) ca: Option<PathBuf>,
    /// Resume sessions of TLS; otherwise each connection makes a whole handshake
    #[arg(long, help_heading = "Connections")]
    pub(crate) resume: bool,

    /// Print more percentiles
    #[arg(long, help_heading = "Report")]
    pub(crate) latency: bool,
    /// Print the report as JSON, with one line for each second in it
    #[arg(long, help_heading = "Report")]
    pub(crate) json: bool,
    /// Write the distribution of latencies, as HdrHistogram's plotter reads it
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    pub(crate) hdr: Option<PathBuf>,
    /// Show nothing while the run lasts
    #[arg(short, long, help_heading = "Report")]
    pub(crate) quiet: bool,
    /// Compare two runs that were kept with --json
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "urls", help_heading = "Report")]
    pub(crate) compare: Option<Vec<PathBuf>>,
}
