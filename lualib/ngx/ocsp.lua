-- ngx.ocsp: the status of certificates. A chain is what ngx.ssl.cert_pem_to_der gives: a certificate, then its issuer. A
-- function answers nil and a message when it fails. Responses that are signed with SHA-1 are not accepted.

local native = require "tidegate.ssl"
local sub = string.sub

local _M = {
    version = "0.1.33",
    -- In ssl_certificate_by_lua*: set_ocsp_status_resp(response) shows it with the certificate; true, and "no status req" when
    -- the client has not asked for one.
    set_ocsp_status_resp = native.set_status,
}

-- Bytes of an address, a request or a message where the caller sets no other limit.
local BYTES_MAX = 4096

-- get_ocsp_responder_from_der_chain(chain [, max]): the responder's address, and "truncated" if it is longer; nil alone when
-- the certificate names none.
function _M.get_ocsp_responder_from_der_chain(chain, max)
    local address, err = native.ocsp_responder(chain)
    if not address then
        return nil, err
    end
    max = max and max > 0 and max or BYTES_MAX
    if #address > max then
        return sub(address, 1, max), "truncated"
    end
    return address
end

-- create_ocsp_request(chain [, max]): what is sent to the responder.
function _M.create_ocsp_request(chain, max)
    local request, err = native.ocsp_request(chain)
    if not request then
        return nil, err
    end
    max = max and max > 0 and max or BYTES_MAX
    if #request > max then
        return nil, "output buffer too small: " .. #request .. " > " .. max
    end
    return request
end

-- validate_ocsp_response(response, chain [, max]): true, and when there will be a new one, in seconds since 1970.
function _M.validate_ocsp_response(response, chain, max)
    local ok, next_update = native.ocsp_validate(response, chain)
    if not ok then
        return nil, sub(next_update, 1, max and max > 0 and max or BYTES_MAX)
    end
    return true, next_update
end

return _M
