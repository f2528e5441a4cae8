"""The published test vector for implementations of the signature.

Check it with OpenSSL, in a shell with the values below in three variables::

    printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$SECRET"
"""

SECRET = "whsec_3qmX0XrTQd0cZ9m2sU1yVbWlPg7kEo5nHaJiRf4tLhc"
TIMESTAMP = 1767268800
BODY = (
    '{"id":"evt_019b796dd6001f6d6a3c9f0e5b7d2a41","type":"ppt.generation.completed",'
    '"created":"2026-01-01T12:00:00.000000Z","data":{"ppt_id":"ppt_8f14e45f","user_id":"user_1024",'
    '"title":"Rückblick 2025","pages":12,"download_url":"https://api.example.com/v1/ppt/ppt_8f14e45f/download",'
    '"generation_time":14.82,"cost":10}}'
).encode()
SIGNATURE = "sha256=29b614fed20147fd8cb10fe4b08f314e993992a7682acc66a663d6e43b758b4e"

PREVIOUS_SECRET = "whsec_N7e2vKq0bT9xLrC4uYd8sWgZ1oPfJmHiA5tRnXkVbQw"
PREVIOUS_SIGNATURE = "sha256=0600b476c0018e9d7245b3d7a108136ef2e2596f0f10119c73fe3ed4523f67fb"
"""The second header after SECRET has replaced PREVIOUS_SECRET."""
