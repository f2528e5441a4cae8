from django.db import migrations

from webhooks_app.database.storage import SetFillfactor


class Migration(migrations.Migration):
    dependencies = [("webhooks_app", "0001_initial")]

    operations = [
        SetFillfactor("QueueEntry", 45),
        SetFillfactor("QueueLane", 40),
        SetFillfactor("Delivery", 47),
        SetFillfactor("WorkerSession", 40),
    ]
